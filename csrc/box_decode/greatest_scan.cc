#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "box_decode/greatest_scan.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <cmath>

#include "box_decode/head_scan-inl.h"
#include "box_decode/score_rows.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

bool CollectGreatest(const ScoreRows& rows, size_t classes, float* greatest) {
  const Floats d;
  auto sum = hn::Zero(d);
  float rest = 0.0F;
  for (size_t r = 0; r < rows.count(); ++r) {
    const float* scores = rows.Row(r);
    if (rows.has_background) rest += scores[rows.background];
    greatest[r] = FindGreatest(scores, classes, sum, rest);
  }
  return IsSuspect(sum) || !std::isfinite(rest);
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(CollectGreatest);

bool ScanGreatest(const ScoreRows& rows, size_t classes, float* greatest) {
  return HWY_DYNAMIC_DISPATCH(CollectGreatest)(rows, classes, greatest);
}

}  // namespace endcap
#endif  // HWY_ONCE
