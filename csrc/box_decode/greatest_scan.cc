#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "box_decode/greatest_scan.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "box_decode/head_scan-inl.h"
#include "box_decode/score_rows.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

bool CollectGreatest(const ScoreRows& rows, size_t classes, float* greatest) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  float rest = 0.0F;
  for (size_t r = 0; r < rows.count(); ++r) {
    const float* scores = rows.Row(r);
    if (rows.has_background) rest += scores[rows.background];
    float highest = -std::numeric_limits<float>::infinity();
    size_t i = 0;
    if (classes >= lanes) {
      auto max = hn::LoadU(d, scores);
      // The last vector ends with the row; what is read twice changes nothing.
      for (; i < classes; i += lanes) {
        const auto v = hn::LoadU(d, scores + std::min(i, classes - lanes));
        sum = hn::Add(sum, v);
        max = hn::Max(max, v);
      }
      highest = hn::GetLane(hn::MaxOfLanes(d, max));
    }
    for (; i < classes; ++i) {
      rest += scores[i];
      highest = std::max(highest, scores[i]);
    }
    greatest[r] = highest;
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
