// Included once for each target of Highway; see hwy/foreach_target.h.
#if defined(ENDCAP_PREPROCESS_ROW_STORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENDCAP_PREPROCESS_ROW_STORE_INL_H_
#undef ENDCAP_PREPROCESS_ROW_STORE_INL_H_
#else
#define ENDCAP_PREPROCESS_ROW_STORE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "preprocess/tensor/row_store_simd.h"

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
  const auto lanes = static_cast<ptrdiff_t>(hn::Lanes(Floats()));
  const auto run = [width, lanes](const auto& store_at) HWY_ATTR {
    ptrdiff_t x = 0;
    for (; x + lanes <= width; x += lanes) store_at(x);
    if (x < width) store_at(width - lanes);
  };
  T* const to_r = store.to[0];
  T* const to_g = store.to[1];
  T* const to_b = store.to[2];
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

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#endif
