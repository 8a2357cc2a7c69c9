// Included once for each target: what the scans share.
#if defined(ENDCAP_HEAD_SCAN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ENDCAP_HEAD_SCAN_INL_H
#undef ENDCAP_HEAD_SCAN_INL_H
#else
#define ENDCAP_HEAD_SCAN_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "box_decode/head_scan.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kScanRoom>;
using Unsigned = hn::RebindToUnsigned<Floats>;
using Signed = hn::RebindToSigned<Floats>;
using FloatVector = hn::Vec<Floats>;
using SignedVector = hn::Vec<Signed>;

// Whether a sum is not finite.
HWY_INLINE bool IsSuspect(FloatVector sums) {
  // x - x is 0 for every finite x, else NaN.
  const Floats d;
  return !hn::AllTrue(d, hn::Eq(hn::Sub(sums, sums), hn::Zero(d)));
}

// The greatest of the values, minus infinity for none. All that is read is added to `sum` or
// `rest`.
HWY_INLINE float FindGreatest(const float* values, size_t count, FloatVector& sum, float& rest) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  float greatest = -std::numeric_limits<float>::infinity();
  size_t i = 0;
  if (count >= lanes) {
    auto max = hn::LoadU(d, values);
    // The last vector ends with the values; what is read twice changes nothing.
    for (; i < count; i += lanes) {
      const auto v = hn::LoadU(d, values + std::min(i, count - lanes));
      sum = hn::Add(sum, v);
      max = hn::Max(max, v);
    }
    greatest = hn::GetLane(hn::MaxOfLanes(d, max));
  }
  for (; i < count; ++i) {
    rest += values[i];
    greatest = std::max(greatest, values[i]);
  }
  return greatest;
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ENDCAP_HEAD_SCAN_INL_H
