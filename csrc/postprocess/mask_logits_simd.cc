#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "postprocess/mask_logits_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <cmath>

#include "postprocess/mask_logits.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kMaskRoom>;
using FloatVector = hn::Vec<Floats>;

// One row of every prototype: [count] rows, `plane` elements apart.
struct PrototypeRows {
  const float* first;
  size_t plane;
  size_t count;
};

// The sums of four vectors. One multiplication and one addition each, as the definition rounds.
// `doubt` becomes other than 0 where a sum is not finite: x - x is 0 for every finite x, else NaN.
HWY_INLINE void SumFourVectors(const PrototypeRows& rows, const float* coefficients, float* sums,
                               FloatVector& doubt) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  auto sum2 = hn::Zero(d);
  auto sum3 = hn::Zero(d);
  const float* pixels = rows.first;
  for (size_t m = 0; m < rows.count; ++m, pixels += rows.plane) {
    const auto coefficient = hn::Set(d, coefficients[m]);
    sum0 = hn::Add(sum0, hn::Mul(coefficient, hn::LoadU(d, pixels)));
    sum1 = hn::Add(sum1, hn::Mul(coefficient, hn::LoadU(d, pixels + lanes)));
    sum2 = hn::Add(sum2, hn::Mul(coefficient, hn::LoadU(d, pixels + 2 * lanes)));
    sum3 = hn::Add(sum3, hn::Mul(coefficient, hn::LoadU(d, pixels + 3 * lanes)));
  }
  hn::StoreU(sum0, d, sums);
  hn::StoreU(sum1, d, sums + lanes);
  hn::StoreU(sum2, d, sums + 2 * lanes);
  hn::StoreU(sum3, d, sums + 3 * lanes);
  const auto doubt01 = hn::Add(hn::Sub(sum0, sum0), hn::Sub(sum1, sum1));
  const auto doubt23 = hn::Add(hn::Sub(sum2, sum2), hn::Sub(sum3, sum3));
  doubt = hn::Add(doubt, hn::Add(doubt01, doubt23));
}

HWY_INLINE void SumVector(const PrototypeRows& rows, const float* coefficients, float* sums,
                          FloatVector& doubt) {
  const Floats d;
  auto sum = hn::Zero(d);
  const float* pixels = rows.first;
  for (size_t m = 0; m < rows.count; ++m, pixels += rows.plane) {
    sum = hn::Add(sum, hn::Mul(hn::Set(d, coefficients[m]), hn::LoadU(d, pixels)));
  }
  hn::StoreU(sum, d, sums);
  doubt = hn::Add(doubt, hn::Sub(sum, sum));
}

HWY_INLINE float SumOne(const PrototypeRows& rows, const float* coefficients) {
  float sum = 0.0F;
  for (size_t m = 0; m < rows.count; ++m) sum += coefficients[m] * rows.first[m * rows.plane];
  return sum;
}

// `readable`: how many elements of the last prototype lie from rows.first on.
HWY_INLINE void SumRow(PrototypeRows rows, const float* coefficients, size_t columns,
                       size_t readable, float* sums, FloatVector& doubt) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const float* first = rows.first;
  size_t x = 0;
  for (; x + 4 * lanes <= columns; x += 4 * lanes) {
    rows.first = first + x;
    SumFourVectors(rows, coefficients, sums + x, doubt);
  }
  for (; x < columns && x + lanes <= readable; x += lanes) {
    rows.first = first + x;
    SumVector(rows, coefficients, sums + x, doubt);
  }
  for (; x < columns; ++x) {  // the end of the prototypes' memory
    rows.first = first + x;
    sums[x] = SumOne(rows, coefficients);
    doubt = hn::Add(doubt, hn::Set(d, sums[x] - sums[x]));
  }
}

bool SumWindow(const MaskPrototypes& prototypes, const float* coefficients,
               const MaskWindow& window, float* logits) {
  const Floats d;
  auto doubt = hn::Zero(d);
  const size_t stride = LogitStride(window);
  const auto width = static_cast<size_t>(prototypes.width);
  const size_t plane = width * static_cast<size_t>(prototypes.height);
  const size_t columns = window.prototype_columns.size();
  for (size_t row = 0; row < window.prototype_rows.size(); ++row) {
    const size_t offset = (static_cast<size_t>(window.prototype_rows.begin) + row) * width +
                          static_cast<size_t>(window.prototype_columns.begin);
    SumRow({prototypes.data + offset, plane, static_cast<size_t>(prototypes.count)}, coefficients,
           columns, plane - offset, logits + row * stride, doubt);
  }
  return hn::AllTrue(d, hn::Eq(doubt, hn::Zero(d)));
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(SumWindow);

bool MaskLogitsSimd(const MaskPrototypes& prototypes, const float* coefficients,
                    const MaskWindow& window, float* logits) {
  return HWY_DYNAMIC_DISPATCH(SumWindow)(prototypes, coefficients, window, logits);
}

}  // namespace endcap
#endif  // HWY_ONCE
