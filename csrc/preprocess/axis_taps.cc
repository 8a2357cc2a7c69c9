#include "preprocess/axis_taps.h"

#include <algorithm>
#include <cmath>

#include "preprocess/resize_arithmetic.h"

namespace endcap {
namespace {

AxisTaps Allocate(ResizeArithmetic arithmetic, int count, int taps) {
  AxisTaps axis;
  axis.taps = taps;
  const size_t entries = static_cast<size_t>(count) * static_cast<size_t>(taps);
  axis.index.resize(entries);
  if (arithmetic == ResizeArithmetic::kFloat) {
    axis.float_weight.resize(entries);
  } else {
    axis.fixed_weight.resize(entries);
  }
  return axis;
}

void SetWeight(AxisTaps& axis, ResizeArithmetic arithmetic, size_t entry, double weight) {
  switch (arithmetic) {
    case ResizeArithmetic::kOpencv8:
      axis.fixed_weight[entry] =
          static_cast<int32_t>(std::nearbyint(static_cast<float>(weight) * kOpencvOne));
      break;
    case ResizeArithmetic::kPillow8:
      axis.fixed_weight[entry] = static_cast<int32_t>(std::floor(weight * kPillowOne + 0.5));
      break;
    case ResizeArithmetic::kFloat:
      axis.float_weight[entry] = static_cast<float>(weight);
      break;
  }
}

AxisTaps NearestTaps(const AxisRequest& request, ResizeArithmetic arithmetic) {
  AxisTaps axis = Allocate(arithmetic, request.count, 1);
  for (int i = 0; i < request.count; ++i) {
    // floor((output + 0.5) * source_size / resized_size), in whole numbers.
    const int64_t twice = 2 * (int64_t{request.begin} + i) + 1;
    const int64_t position = twice * request.source_size / (2 * int64_t{request.resized_size});
    axis.index[static_cast<size_t>(i)] = static_cast<int>(position);
    SetWeight(axis, arithmetic, static_cast<size_t>(i), 1.0);
  }
  return axis;
}

// Two neighbours. The fraction is rounded to float32 as OpenCV does. Columns beyond the border take
// the border sample with weight 1; rows keep both weights and repeat the border row, which OpenCV's
// fixed-point sum can tell apart.
AxisTaps BilinearTaps(const AxisRequest& request, ResizeArithmetic arithmetic) {
  AxisTaps axis = Allocate(arithmetic, request.count, 2);
  const int last = request.source_size - 1;
  const double scale = 1.0 / (static_cast<double>(request.resized_size) / request.source_size);
  for (int i = 0; i < request.count; ++i) {
    float position = static_cast<float>((request.begin + i + 0.5) * scale - 0.5);
    const int left = static_cast<int>(std::floor(position));
    float fraction = position - static_cast<float>(left);
    if (!request.rows && (left < 0 || left >= last)) fraction = 0.0F;
    const size_t entry = axis.Offset(i);
    axis.index[entry] = std::clamp(left, 0, last);
    axis.index[entry + 1] = std::clamp(left + 1, 0, last);
    SetWeight(axis, arithmetic, entry, 1.0F - fraction);
    SetWeight(axis, arithmetic, entry + 1, fraction);
  }
  return axis;
}

// A triangle that widens with the shrinking, normalised to sum 1; computed in double. Source of the
// window and its rounding: Pillow's resample (support 1 for bilinear).
AxisTaps AntialiasTaps(const AxisRequest& request, ResizeArithmetic arithmetic) {
  const double scale = static_cast<double>(request.source_size) / request.resized_size;
  const double filter_scale = std::max(scale, 1.0);
  const double support = filter_scale;
  const int taps = std::min(static_cast<int>(std::ceil(support)) * 2 + 1, request.source_size);
  AxisTaps axis = Allocate(arithmetic, request.count, taps);
  std::vector<double> weights(static_cast<size_t>(taps));
  for (int i = 0; i < request.count; ++i) {
    const double center = (request.begin + i + 0.5) * scale;
    // NOLINTBEGIN(bugprone-incorrect-roundings): Pillow's, which truncates towards zero
    const int begin = std::max(static_cast<int>(center - support + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support + 0.5), request.source_size);
    // NOLINTEND(bugprone-incorrect-roundings)
    double total = 0.0;
    for (int k = 0; k < end - begin; ++k) {
      const double distance = std::abs((k + begin - center + 0.5) * (1.0 / filter_scale));
      weights[static_cast<size_t>(k)] = std::max(1.0 - distance, 0.0);
      total += weights[static_cast<size_t>(k)];
    }
    for (int k = 0; k < taps; ++k) {
      const size_t entry = axis.Offset(i) + static_cast<size_t>(k);
      axis.index[entry] = std::min(begin + k, end - 1);
      const bool used = k < end - begin;
      SetWeight(axis, arithmetic, entry,
                used ? weights[static_cast<size_t>(k)] * (1.0 / total) : 0.0);
    }
  }
  return axis;
}

}  // namespace

ResizeArithmetic ArithmeticOf(const PreprocessParams& params) noexcept {
  if (params.quantize == Quantize::kNone) return ResizeArithmetic::kFloat;
  const bool opencv = params.interpolation == Interpolation::kBilinear && !params.antialias;
  return opencv ? ResizeArithmetic::kOpencv8 : ResizeArithmetic::kPillow8;
}

AxisTaps MakeAxisTaps(const PreprocessParams& params, const AxisRequest& request) {
  const ResizeArithmetic arithmetic = ArithmeticOf(params);
  if (params.interpolation == Interpolation::kNearest) return NearestTaps(request, arithmetic);
  if (params.antialias) return AntialiasTaps(request, arithmetic);
  return BilinearTaps(request, arithmetic);
}

}  // namespace endcap
