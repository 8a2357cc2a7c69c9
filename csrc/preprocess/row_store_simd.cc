#include "preprocess/row_store_simd.h"

#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "preprocess/row_store_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Numbers = hn::Vec<Floats>;

// One vector of numbers into elements of T.
HWY_INLINE void StoreVector(Numbers y, float* to) { hn::StoreU(y, Floats(), to); }
HWY_INLINE void StoreVector(Numbers y, Half* to) {
  auto* bits = reinterpret_cast<uint16_t*>(to);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const hn::Rebind<hwy::float16_t, Floats> d16;
  const hn::Rebind<uint16_t, Floats> bits16;
  hn::StoreU(hn::BitCast(bits16, hn::DemoteTo(d16, y)), bits16, bits);
#else
  // Without instructions for it: the definition.
  HWY_ALIGN float numbers[hn::MaxLanes(Floats())];
  hn::Store(y, Floats(), numbers);
  for (size_t i = 0; i < hn::Lanes(Floats()); ++i) bits[i] = FloatToHalf(numbers[i]);
#endif
}

HWY_INLINE void StoreThree(Numbers a, Numbers b, Numbers c, float* to) {
  hn::StoreInterleaved3(a, b, c, Floats(), to);
}
HWY_INLINE void StoreThree(Numbers a, Numbers b, Numbers c, Half* to) {
  HWY_ALIGN Half halves[3][hn::MaxLanes(Floats())];
  StoreVector(a, halves[0]);
  StoreVector(b, halves[1]);
  StoreVector(c, halves[2]);
  for (size_t i = 0; i < hn::Lanes(Floats()); ++i, to += 3) {
    for (size_t channel = 0; channel < 3; ++channel) to[channel] = halves[channel][i];
  }
}

// Whole vectors over [0, width); the last one reaches back over what is written already, so that
// nothing beyond the row is touched. make(x, r, g, b) gives the three channels from x on.
template <typename T, class Make>
HWY_INLINE void StoreRow(int width, const RowStore<T>& store, const Make& make) {
  const int lanes = static_cast<int>(hn::Lanes(Floats()));
  T* const to_r = store.to[0];
  T* const to_g = store.to[1];
  T* const to_b = store.to[2];
  Numbers r, g, b;
  if (store.interleaved) {
    T* const to = store.blue_first ? to_b : to_r;
    for (int x = 0; x < width; x += lanes) {
      if (x + lanes > width) x = width - lanes;
      make(x, r, g, b);
      StoreThree(store.blue_first ? b : r, g, store.blue_first ? r : b, to + ptrdiff_t{3} * x);
    }
    return;
  }
  for (int x = 0; x < width; x += lanes) {
    if (x + lanes > width) x = width - lanes;
    make(x, r, g, b);
    StoreVector(r, to_r + x);
    StoreVector(g, to_g + x);
    StoreVector(b, to_b + x);
  }
}

// Narrower rows than a vector go through memory that is wide enough.
template <typename T, typename Pixel, class Write>
HWY_INLINE void StoreNarrowRow(const Pixel* row, int width, const RowStore<T>& store,
                               const Write& write) {
  constexpr size_t kLanes = hn::MaxLanes(Floats());
  Pixel pixels[4 * kLanes] = {};
  std::memcpy(pixels, row, sizeof(Pixel) * 4 * static_cast<size_t>(width));
  T numbers[5 * kLanes];  // interleaved ones may begin at the third channel's place
  RowStore<T> wide = store;
  wide.to = {numbers, numbers + kLanes, numbers + 2 * kLanes};
  write(pixels, static_cast<int>(hn::Lanes(Floats())), wide);
  const size_t bytes = sizeof(T) * static_cast<size_t>(width);
  if (store.interleaved) {
    std::memcpy(store.to[store.blue_first ? 2 : 0], wide.to[store.blue_first ? 2 : 0], 3 * bytes);
  } else {
    for (size_t c = 0; c < 3; ++c) std::memcpy(store.to[c], wide.to[c], bytes);
  }
}

using Words = hn::RebindToSigned<Floats>;

template <int kShift>
HWY_INLINE hn::Vec<Words> Channel(hn::Vec<hn::RebindToUnsigned<Floats>> pixels) {
  const hn::RebindToUnsigned<Floats> d32;
  return hn::BitCast(Words(), hn::And(hn::ShiftRight<kShift>(pixels), hn::Set(d32, 0xFFU)));
}

// Numbers of a split, spread over vectors once for a row. Without an offset two additions go.
template <bool kOffset>
struct SplitStep {
  explicit SplitStep(const SplitNormalize& split)
      : coarse_scale(hn::Set(Floats(), split.coarse_scale)),
        fine_scale(hn::Set(Floats(), split.fine_scale)),
        coarse_offset(hn::Set(Floats(), split.coarse_offset)),
        fine_offset(hn::Set(Floats(), split.fine_offset)) {}

  HWY_INLINE Numbers operator()(hn::Vec<Words> pixel) const {
    const auto p = hn::ConvertTo(Floats(), pixel);
    auto coarse = hn::Mul(p, coarse_scale);
    auto fine = hn::Mul(p, fine_scale);
    if constexpr (kOffset) {
      coarse = hn::Add(coarse, coarse_offset);
      fine = hn::Add(fine, fine_offset);
    }
    return hn::Add(coarse, fine);
  }

  Numbers coarse_scale, fine_scale, coarse_offset, fine_offset;
};

HWY_INLINE Numbers ApplyExact(const ChannelNormalize& exact, hn::Vec<Words> pixel) {
  const hn::RepartitionToWide<Floats> d64;
  const hn::Half<Floats> half;
  const hn::Half<Words> half_words;
  const auto step = [&](hn::Vec<hn::Half<Words>> p) HWY_ATTR {
    const auto scaled = hn::Mul(hn::PromoteTo(d64, p), hn::Set(d64, exact.scale));
    const auto centred = hn::Sub(scaled, hn::Set(d64, exact.mean));
    return hn::DemoteTo(half, hn::Div(centred, hn::Set(d64, exact.std)));
  };
  return hn::Combine(Floats(), step(hn::UpperHalf(half_words, pixel)),
                     step(hn::LowerHalf(half_words, pixel)));
}

template <typename T, class R, class G, class B>
HWY_INLINE void StorePixels(const uint8_t* row, int width, const RowStore<T>& store, const R& r,
                            const G& g, const B& b) {
  const hn::RebindToUnsigned<Floats> d32;
  const auto write = [&](const uint8_t* from, int count, const RowStore<T>& to) HWY_ATTR {
    const auto* pixels = reinterpret_cast<const uint32_t*>(from);
    StoreRow(count, to, [=](int x, Numbers& red, Numbers& green, Numbers& blue) HWY_ATTR {
      const auto four = hn::LoadU(d32, pixels + x);
      red = r(Channel<0>(four));
      green = g(Channel<8>(four));
      blue = b(Channel<16>(four));
    });
  };
  if (width < static_cast<int>(hn::Lanes(Floats()))) {
    StoreNarrowRow(row, width, store, write);
  } else {
    write(row, width, store);
  }
}

template <typename T>
void StoreSplitRow(const uint8_t* row, int width, const SplitNormalize* split,
                   const RowStore<T>& store) {
  bool offset = false;
  for (int c = 0; c < 3; ++c) {
    offset = offset || split[c].coarse_offset != 0.0F || split[c].fine_offset != 0.0F;
  }
  if (offset) {
    using Step = SplitStep<true>;
    StorePixels(row, width, store, Step(split[0]), Step(split[1]), Step(split[2]));
  } else {
    using Step = SplitStep<false>;
    StorePixels(row, width, store, Step(split[0]), Step(split[1]), Step(split[2]));
  }
}

template <typename T>
void StoreExactRow(const uint8_t* row, int width, const ChannelNormalize* exact,
                   const RowStore<T>& store) {
  const auto step = [exact](int c) {
    return [exact, c](hn::Vec<Words> pixel) HWY_ATTR { return ApplyExact(exact[c], pixel); };
  };
  StorePixels(row, width, store, step(0), step(1), step(2));
}

template <typename T>
void StoreFloatRow(const float* row, int width, const ChannelNormalize* normalize,
                   const RowStore<T>& store) {
  const Floats d;
  const auto single = [&](int channel, Numbers pixel) HWY_ATTR {
    const ChannelNormalize& n = normalize[channel];
    const auto scaled = hn::Mul(pixel, hn::Set(d, static_cast<float>(n.scale)));
    const auto centred = hn::Sub(scaled, hn::Set(d, static_cast<float>(n.mean)));
    return hn::Div(centred, hn::Set(d, static_cast<float>(n.std)));
  };
  const auto write = [&](const float* from, int count, const RowStore<T>& to) HWY_ATTR {
    StoreRow(count, to, [&](int x, Numbers& red, Numbers& green, Numbers& blue) HWY_ATTR {
      Numbers r, g, b, unused;
      hn::LoadInterleaved4(d, from + ptrdiff_t{4} * x, r, g, b, unused);
      red = single(0, r);
      green = single(1, g);
      blue = single(2, b);
    });
  };
  if (width < static_cast<int>(hn::Lanes(d))) {
    StoreNarrowRow(row, width, store, write);
  } else {
    write(row, width, store);
  }
}

void StoreByteRow(const uint8_t* row, int width, const RowStore<uint8_t>& store) {
  const hn::ScalableTag<uint8_t> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int x = 0;
  for (; x + lanes <= width; x += lanes) {
    hn::Vec<decltype(d)> red, green, blue, unused;
    hn::LoadInterleaved4(d, row + ptrdiff_t{4} * x, red, green, blue, unused);
    if (store.interleaved) {
      hn::StoreInterleaved3(store.blue_first ? blue : red, green, store.blue_first ? red : blue, d,
                            store.to[store.blue_first ? 2 : 0] + ptrdiff_t{3} * x);
    } else {
      hn::StoreU(red, d, store.to[0] + x);
      hn::StoreU(green, d, store.to[1] + x);
      hn::StoreU(blue, d, store.to[2] + x);
    }
  }
  const ptrdiff_t step = store.interleaved ? 3 : 1;
  for (; x < width; ++x) {
    for (size_t c = 0; c < 3; ++c) store.to[c][step * x] = row[4 * static_cast<size_t>(x) + c];
  }
}

void StoreSplitFloat(const uint8_t* row, int width, const SplitNormalize* split,
                     const RowStore<float>& store) {
  StoreSplitRow(row, width, split, store);
}
void StoreSplitHalf(const uint8_t* row, int width, const SplitNormalize* split,
                    const RowStore<Half>& store) {
  StoreSplitRow(row, width, split, store);
}
void StoreExactFloat(const uint8_t* row, int width, const ChannelNormalize* exact,
                     const RowStore<float>& store) {
  StoreExactRow(row, width, exact, store);
}
void StoreExactHalf(const uint8_t* row, int width, const ChannelNormalize* exact,
                    const RowStore<Half>& store) {
  StoreExactRow(row, width, exact, store);
}
void StoreFloatFloat(const float* row, int width, const ChannelNormalize* normalize,
                     const RowStore<float>& store) {
  StoreFloatRow(row, width, normalize, store);
}
void StoreFloatHalf(const float* row, int width, const ChannelNormalize* normalize,
                    const RowStore<Half>& store) {
  StoreFloatRow(row, width, normalize, store);
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {
namespace {

HWY_EXPORT(StoreSplitFloat);
HWY_EXPORT(StoreSplitHalf);
HWY_EXPORT(StoreExactFloat);
HWY_EXPORT(StoreExactHalf);
HWY_EXPORT(StoreFloatFloat);
HWY_EXPORT(StoreFloatHalf);
HWY_EXPORT(StoreByteRow);

}  // namespace

bool Split(const ChannelNormalize& normalize, SplitNormalize& split) {
  const double scale = normalize.scale / normalize.std;
  const double offset = normalize.mean == 0.0 ? 0.0 : -normalize.mean / normalize.std;
  // Multiples of `unit` below 2^24 units are float32 numbers, and so are their sums.
  const double largest = 255.0 * std::abs(scale) + std::abs(offset);
  const double unit = std::ldexp(1.0, std::ilogb(largest) + 1 - 23);
  const double coarse_scale = std::nearbyint(scale / unit) * unit;
  const double coarse_offset = std::nearbyint(offset / unit) * unit;
  split = {static_cast<float>(coarse_scale), static_cast<float>(scale - coarse_scale),
           static_cast<float>(coarse_offset), static_cast<float>(offset - coarse_offset)};
  for (int pixel = 0; pixel < 256; ++pixel) {
    const auto exact = static_cast<float>(normalize.Exact(pixel));
    const float applied = split.Apply(static_cast<float>(pixel));
    if (std::memcmp(&exact, &applied, sizeof(exact)) != 0) return false;
  }
  return true;
}

template <>
void StoreBytesAs<float>(const uint8_t* row, int width, const SplitNormalize* split,
                         const std::array<ChannelNormalize, 3>& exact,
                         const RowStore<float>& store) {
  if (split != nullptr) {
    HWY_DYNAMIC_DISPATCH(StoreSplitFloat)(row, width, split, store);
  } else {
    HWY_DYNAMIC_DISPATCH(StoreExactFloat)(row, width, exact.data(), store);
  }
}

template <>
void StoreBytesAs<Half>(const uint8_t* row, int width, const SplitNormalize* split,
                        const std::array<ChannelNormalize, 3>& exact, const RowStore<Half>& store) {
  if (split != nullptr) {
    HWY_DYNAMIC_DISPATCH(StoreSplitHalf)(row, width, split, store);
  } else {
    HWY_DYNAMIC_DISPATCH(StoreExactHalf)(row, width, exact.data(), store);
  }
}

template <>
void StoreFloatsAs<float>(const float* row, int width,
                          const std::array<ChannelNormalize, 3>& normalize,
                          const RowStore<float>& store) {
  HWY_DYNAMIC_DISPATCH(StoreFloatFloat)(row, width, normalize.data(), store);
}

template <>
void StoreFloatsAs<Half>(const float* row, int width,
                         const std::array<ChannelNormalize, 3>& normalize,
                         const RowStore<Half>& store) {
  HWY_DYNAMIC_DISPATCH(StoreFloatHalf)(row, width, normalize.data(), store);
}

void StoreBytes(const uint8_t* row, int width, const RowStore<uint8_t>& store) {
  HWY_DYNAMIC_DISPATCH(StoreByteRow)(row, width, store);
}

}  // namespace endcap
#endif  // HWY_ONCE
