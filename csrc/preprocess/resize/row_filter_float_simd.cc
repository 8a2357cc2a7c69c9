#include "preprocess/resize/row_filter_scalar.h"
#include "preprocess/resize/row_filter_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "preprocess/resize/row_filter_float_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void FloatColumns(const uint8_t* source, const int32_t* index, const float* weight, int taps,
                  int count, float* out) {
  const hn::Full128<float> df;
  const hn::Simd<uint8_t, 4, 0> pixel;
  for (int x = 0; x < count; ++x, index += taps, weight += taps) {
    auto sum = hn::Zero(df);
    for (int k = 0; k < taps; ++k) {
      const auto bytes = hn::LoadU(pixel, source + ptrdiff_t{4} * index[k]);
      const auto sample = hn::ConvertTo(df, hn::PromoteTo(hn::Full128<int32_t>(), bytes));
      sum = hn::Add(sum, hn::Mul(sample, hn::Set(df, weight[k])));
    }
    hn::StoreU(sum, df, out + ptrdiff_t{4} * x);
  }
}

void FloatRows(const float* const* rows, const float* weight, int taps, int samples, float* out) {
  const hn::ScalableTag<float> df;
  for (int i = 0; i < samples; i += static_cast<int>(hn::Lanes(df))) {
    auto sum = hn::Zero(df);
    for (int k = 0; k < taps; ++k) {
      sum = hn::Add(sum, hn::Mul(hn::LoadU(df, rows[k] + i), hn::Set(df, weight[k])));
    }
    hn::StoreU(sum, df, out + i);
  }
}

void FloatRowsToBytes(const float* const* rows, const float* weight, int taps, float sum_scale,
                      int samples, uint8_t* out) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<uint8_t, decltype(df)> d8;
  const auto scale = hn::Set(df, sum_scale);
  for (int i = 0; i < samples; i += static_cast<int>(hn::Lanes(df))) {
    auto sum = hn::Zero(df);
    for (int k = 0; k < taps; ++k) {
      sum = hn::Add(sum, hn::Mul(hn::LoadU(df, rows[k] + i), hn::Set(df, weight[k])));
    }
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(hn::Mul(sum, scale))), d8, out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {
namespace {

HWY_EXPORT(FloatColumns);
HWY_EXPORT(FloatRows);
HWY_EXPORT(FloatRowsToBytes);

}  // namespace

// Whole ratios of two and pictures that grow have fixed weights; they take the scalar loops.
void OpencvFloat8Simd::Horizontal(const uint8_t* source, const Columns& columns, int channels,
                                  Intermediate* out) {
  if (columns.fixed_weight.empty()) {
    FloatSimd::Horizontal(source, columns, channels, out);
  } else {
    OpencvFloat8Scalar::Horizontal(source, columns, channels, out);
  }
}

void OpencvFloat8Simd::Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                                int samples, Output* out) {
  if (axis.fixed_weight.empty()) {
    HWY_DYNAMIC_DISPATCH(FloatRowsToBytes)
    (rows, axis.float_weight.data() + axis.Offset(output), axis.taps, axis.sum_scale, samples, out);
  } else {
    OpencvFloat8Scalar::Vertical(rows, axis, output, samples, out);
  }
}

void FloatSimd::Horizontal(const uint8_t* source, const Columns& columns, int channels,
                           Intermediate* out) {
  if (channels == 4) {
    HWY_DYNAMIC_DISPATCH(FloatColumns)
    (source, columns.index.data(), columns.float_weight.data(), columns.taps, columns.size(), out);
  } else {
    FloatScalar::Horizontal(source, columns, channels, out);
  }
}

void FloatSimd::Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                         int samples, Output* out) {
  HWY_DYNAMIC_DISPATCH(FloatRows)
  (rows, axis.float_weight.data() + axis.Offset(output), axis.taps, samples, out);
}

}  // namespace endcap
#endif  // HWY_ONCE
