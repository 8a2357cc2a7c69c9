#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/half_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <algorithm>

#include "common/half.h"
#include "common/vector_operations-inl.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void ConvertHalves(const uint16_t* halves, size_t count, float* floats) {
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    hn::StoreU(HalvesToFloats(d, hn::LoadU(dh, halves + i)), d, floats + i);
  }
  for (; i < count; ++i) floats[i] = HalfToFloat(halves[i]);
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(ConvertHalves);

void HalvesToFloats(std::span<const uint16_t> halves, Implementation implementation,
                    float* floats) {
  if (implementation == Implementation::kSimd) {
    HWY_DYNAMIC_DISPATCH(ConvertHalves)(halves.data(), halves.size(), floats);
  } else {
    std::transform(halves.begin(), halves.end(), floats, HalfToFloat);
  }
}

}  // namespace endcap
#endif  // HWY_ONCE
