// Included once for each target: what the scans share.
#if defined(ENDCAP_HEAD_SCAN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ENDCAP_HEAD_SCAN_INL_H
#undef ENDCAP_HEAD_SCAN_INL_H
#else
#define ENDCAP_HEAD_SCAN_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "box_decode/head_scan.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kScanRoom>;
using Unsigned = hn::RebindToUnsigned<Floats>;
using Signed = hn::RebindToSigned<Floats>;
using FloatVector = hn::Vec<Floats>;

// Whether a sum is not finite.
HWY_INLINE bool IsSuspect(FloatVector sums) {
  // x - x is 0 for every finite x, else NaN.
  const Floats d;
  return !hn::AllTrue(d, hn::Eq(hn::Sub(sums, sums), hn::Zero(d)));
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ENDCAP_HEAD_SCAN_INL_H
