#include "preprocess/tensor/row_store_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "preprocess/tensor/row_store_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToSigned<Floats>;
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
HWY_INLINE void StoreWideRow(int width, const RowStore& store, const Make& make) {
  const auto lanes = static_cast<ptrdiff_t>(hn::Lanes(Floats()));
  const auto run = [width, lanes](const auto& store_at) HWY_ATTR {
    ptrdiff_t x = 0;
    for (; x + lanes <= width; x += lanes) store_at(x);
    if (x < width) store_at(width - lanes);
  };
  T* const to_r = static_cast<T*>(store.to[0]);
  T* const to_g = static_cast<T*>(store.to[1]);
  T* const to_b = static_cast<T*>(store.to[2]);
  if (store.interleaved) {
    const bool blue_first = store.blue_first;
    T* const to = blue_first ? to_b : to_r;
    run([&make, to, blue_first](ptrdiff_t x) HWY_ATTR {
      Numbers r, g, b;
      make(x, r, g, b);
      StoreThree(blue_first ? b : r, g, blue_first ? r : b, to + 3 * x);
    });
  } else {
    run([&make, to_r, to_g, to_b](ptrdiff_t x) HWY_ATTR {
      Numbers r, g, b;
      make(x, r, g, b);
      StoreVector(r, to_r + x);
      StoreVector(g, to_g + x);
      StoreVector(b, to_b + x);
    });
  }
}

// Calls write(pixels, width, store); narrower rows than a vector go through memory that is wide
// enough.
template <typename T, typename Pixel, class Write>
HWY_INLINE void StoreRow(const Pixel* row, int width, const RowStore& store, const Write& write) {
  constexpr size_t kLanes = hn::MaxLanes(Floats());
  if (width >= static_cast<int>(hn::Lanes(Floats()))) return write(row, width, store);
  Pixel pixels[4 * kLanes] = {};
  std::memcpy(pixels, row, sizeof(Pixel) * 4 * static_cast<size_t>(width));
  T numbers[5 * kLanes];  // interleaved ones may begin at the third channel's place
  RowStore wide = store;
  wide.to = {numbers, numbers + kLanes, numbers + 2 * kLanes};
  write(pixels, static_cast<int>(hn::Lanes(Floats())), wide);
  const size_t bytes = sizeof(T) * static_cast<size_t>(width);
  if (store.interleaved) {
    std::memcpy(store.to[store.blue_first ? 2 : 0], wide.to[store.blue_first ? 2 : 0], 3 * bytes);
  } else {
    for (size_t c = 0; c < 3; ++c) std::memcpy(store.to[c], wide.to[c], bytes);
  }
}

// One of the four bytes of each pixel.
template <uint8_t kByte>
HWY_INLINE hn::Vec<Words> Channel(hn::Vec<hn::RebindToUnsigned<Floats>> pixels) {
  const hn::Repartition<uint8_t, Words> d8;
  constexpr uint8_t kZero = 0x80;
  alignas(16) static constexpr uint8_t kOrder[16] = {
      kByte,     kZero, kZero, kZero, kByte + 4,  kZero, kZero, kZero,
      kByte + 8, kZero, kZero, kZero, kByte + 12, kZero, kZero, kZero};
  const auto order = hn::LoadDup128(d8, kOrder);
  return hn::BitCast(Words(), hn::TableLookupBytesOr0(hn::BitCast(d8, pixels), order));
}

// Numbers of a split, spread over vectors once for a row. Without an offset two additions go. The
// coarse part is exact, so that a fused multiplication changes nothing.
template <bool kOffset>
struct SplitStep {
  explicit SplitStep(const SplitNormalize& split)
      : coarse_scale(hn::Set(Floats(), split.coarse_scale)),
        fine_scale(hn::Set(Floats(), split.fine_scale)),
        coarse_offset(hn::Set(Floats(), split.coarse_offset)),
        fine_offset(hn::Set(Floats(), split.fine_offset)) {}

  HWY_INLINE Numbers operator()(hn::Vec<Words> pixel) const {
    const auto p = hn::ConvertTo(Floats(), pixel);
    const auto fine = hn::Mul(p, fine_scale);
    if constexpr (kOffset) {
      return hn::Add(hn::MulAdd(p, coarse_scale, coarse_offset), hn::Add(fine, fine_offset));
    } else {
      return hn::MulAdd(p, coarse_scale, fine);
    }
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
HWY_INLINE void StorePixels(const uint8_t* row, int width, const RowStore& store, const R& r,
                            const G& g, const B& b) {
  const hn::RebindToUnsigned<Floats> d32;
  StoreRow<T>(row, width, store, [&](const uint8_t* from, int count, const RowStore& to) HWY_ATTR {
    const auto* pixels = reinterpret_cast<const uint32_t*>(from);
    StoreWideRow<T>(count, to,
                    [=](ptrdiff_t x, Numbers& red, Numbers& green, Numbers& blue) HWY_ATTR {
                      const auto four = hn::LoadU(d32, pixels + x);
                      red = r(Channel<0>(four));
                      green = g(Channel<1>(four));
                      blue = b(Channel<2>(four));
                    });
  });
}

template <typename T>
void StoreByteRow(const uint8_t* row, int width, const SplitNormalize* split,
                  const ChannelNormalize* exact, const RowStore& store) {
  if (split == nullptr) {
    const auto step = [exact](int c) {
      return [exact, c](hn::Vec<Words> pixel) HWY_ATTR { return ApplyExact(exact[c], pixel); };
    };
    return StorePixels<T>(row, width, store, step(0), step(1), step(2));
  }
  bool offset = false;
  for (int c = 0; c < 3; ++c) {
    offset = offset || split[c].coarse_offset != 0.0F || split[c].fine_offset != 0.0F;
  }
  if (offset) {
    using Step = SplitStep<true>;
    StorePixels<T>(row, width, store, Step(split[0]), Step(split[1]), Step(split[2]));
  } else {
    using Step = SplitStep<false>;
    StorePixels<T>(row, width, store, Step(split[0]), Step(split[1]), Step(split[2]));
  }
}

template <typename T>
void StoreFloatRow(const float* row, int width, const ChannelNormalize* normalize,
                   const RowStore& store) {
  const Floats d;
  const auto single = [&](int channel, Numbers pixel) HWY_ATTR {
    const ChannelNormalize& n = normalize[channel];
    const auto scaled = hn::Mul(pixel, hn::Set(d, static_cast<float>(n.scale)));
    const auto centred = hn::Sub(scaled, hn::Set(d, static_cast<float>(n.mean)));
    return hn::Div(centred, hn::Set(d, static_cast<float>(n.std)));
  };
  StoreRow<T>(row, width, store, [&](const float* from, int count, const RowStore& to) HWY_ATTR {
    StoreWideRow<T>(count, to,
                    [&](ptrdiff_t x, Numbers& red, Numbers& green, Numbers& blue) HWY_ATTR {
                      Numbers r, g, b, unused;
                      hn::LoadInterleaved4(d, from + 4 * x, r, g, b, unused);
                      red = single(0, r);
                      green = single(1, g);
                      blue = single(2, b);
                    });
  });
}

void StoreBytesImpl(const uint8_t* row, int width, const SplitNormalize* split,
                    const ChannelNormalize* exact, const RowStore& store) {
  const auto store_as = store.dtype == DType::kFloat32 ? StoreByteRow<float> : StoreByteRow<Half>;
  store_as(row, width, split, exact, store);
}

void StoreFloatsImpl(const float* row, int width, const ChannelNormalize* normalize,
                     const RowStore& store) {
  const auto store_as = store.dtype == DType::kFloat32 ? StoreFloatRow<float> : StoreFloatRow<Half>;
  store_as(row, width, normalize, store);
}

void CopyBytesImpl(const uint8_t* row, int width, const RowStore& store) {
  const hn::ScalableTag<uint8_t> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto to = [&](int c) { return static_cast<uint8_t*>(store.to[static_cast<size_t>(c)]); };
  int x = 0;
  for (; x + lanes <= width; x += lanes) {
    hn::Vec<decltype(d)> red, green, blue, unused;
    hn::LoadInterleaved4(d, row + ptrdiff_t{4} * x, red, green, blue, unused);
    if (store.interleaved) {
      hn::StoreInterleaved3(store.blue_first ? blue : red, green, store.blue_first ? red : blue, d,
                            to(store.blue_first ? 2 : 0) + ptrdiff_t{3} * x);
    } else {
      hn::StoreU(red, d, to(0) + x);
      hn::StoreU(green, d, to(1) + x);
      hn::StoreU(blue, d, to(2) + x);
    }
  }
  const ptrdiff_t step = store.interleaved ? 3 : 1;
  for (; x < width; ++x) {
    for (int c = 0; c < 3; ++c) to(c)[step * x] = row[4 * x + c];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(StoreBytesImpl);
HWY_EXPORT(StoreFloatsImpl);
HWY_EXPORT(CopyBytesImpl);

void StoreBytes(const uint8_t* row, int width, const SplitNormalize* split,
                const ChannelNormalize* exact, const RowStore& store) {
  HWY_DYNAMIC_DISPATCH(StoreBytesImpl)(row, width, split, exact, store);
}

void StoreFloats(const float* row, int width, const ChannelNormalize* normalize,
                 const RowStore& store) {
  HWY_DYNAMIC_DISPATCH(StoreFloatsImpl)(row, width, normalize, store);
}

void CopyBytes(const uint8_t* row, int width, const RowStore& store) {
  HWY_DYNAMIC_DISPATCH(CopyBytesImpl)(row, width, store);
}

}  // namespace endcap
#endif  // HWY_ONCE
