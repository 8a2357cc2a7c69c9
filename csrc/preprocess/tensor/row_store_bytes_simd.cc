#include "preprocess/tensor/row_store_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "preprocess/tensor/row_store_bytes_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

#include "preprocess/tensor/row_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

using Words = hn::RebindToSigned<Floats>;

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
HWY_INLINE void StorePixels(const uint8_t* row, int width, const RowStore<T>& store, const R& r,
                            const G& g, const B& b) {
  const hn::RebindToUnsigned<Floats> d32;
  const auto write = [&](const uint8_t* from, int count, const RowStore<T>& to) HWY_ATTR {
    const auto* pixels = reinterpret_cast<const uint32_t*>(from);
    StoreRow(count, to, [=](ptrdiff_t x, Numbers& red, Numbers& green, Numbers& blue) HWY_ATTR {
      const auto four = hn::LoadU(d32, pixels + x);
      red = r(Channel<0>(four));
      green = g(Channel<1>(four));
      blue = b(Channel<2>(four));
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
HWY_EXPORT(StoreByteRow);

}  // namespace

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

void StoreBytes(const uint8_t* row, int width, const RowStore<uint8_t>& store) {
  HWY_DYNAMIC_DISPATCH(StoreByteRow)(row, width, store);
}

}  // namespace endcap
#endif  // HWY_ONCE
