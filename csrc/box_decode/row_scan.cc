#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "box_decode/row_scan.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <cmath>

#include "box_decode/head_scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

bool SuspectNan(const float* values, size_t count) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    sum0 = hn::Add(sum0, hn::LoadU(d, values + i));
    sum1 = hn::Add(sum1, hn::LoadU(d, values + i + lanes));
  }
  float rest = 0.0F;
  for (; i < count; ++i) rest += values[i];
  return IsSuspect(sum0) || IsSuspect(sum1) || !std::isfinite(rest);
}

ScanResult CollectRows(const float* rows, size_t count, size_t classes,
                       const ObjectnessLimits& limits, uint32_t* passing) {
  const Floats d;
  const size_t length = 5 + classes;
  auto sum = hn::Zero(d);
  float rest = 0.0F;
  ScanResult result;
  for (size_t r = 0; r < count; ++r) {
    const float* row = rows + r * length;
    for (size_t i = 0; i < 5; ++i) rest += row[i];
    const float greatest = FindGreatest(row + 5, classes, sum, rest);
    // A product with a negative objectness may grow where the class score falls.
    const bool passes = limits.is_sigmoid ? row[4] > limits.raw && greatest > limits.raw
                                          : row[4] < 0.0F || row[4] * greatest > limits.product;
    passing[result.passing] = static_cast<uint32_t>(r);
    if (passes) ++result.passing;
  }
  result.may_hold_nan = IsSuspect(sum) || !std::isfinite(rest);
  return result;
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(SuspectNan);
HWY_EXPORT(CollectRows);

bool MayHoldNan(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(SuspectNan)(values.data(), values.size());
}

ScanResult ScanRows(const float* rows, size_t count, size_t classes, const ObjectnessLimits& limits,
                    uint32_t* passing) {
  return HWY_DYNAMIC_DISPATCH(CollectRows)(rows, count, classes, limits, passing);
}

}  // namespace endcap
#endif  // HWY_ONCE
