#include "preprocess/tensor/row_store_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "preprocess/tensor/row_store_floats_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

#include "preprocess/tensor/row_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

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
    StoreRow(count, to, [&](ptrdiff_t x, Numbers& red, Numbers& green, Numbers& blue) HWY_ATTR {
      Numbers r, g, b, unused;
      hn::LoadInterleaved4(d, from + 4 * x, r, g, b, unused);
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

HWY_EXPORT(StoreFloatFloat);
HWY_EXPORT(StoreFloatHalf);

}  // namespace

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

}  // namespace endcap
#endif  // HWY_ONCE
