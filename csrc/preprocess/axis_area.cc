#include <algorithm>
#include <cmath>

#include "preprocess/axis_methods.h"

// OpenCV's INTER_AREA.

namespace endcap {
namespace {

// A cell that an output covers by no more than this is left out. Source: OpenCV 4, imgproc resize.
constexpr double kLeastCover = 1e-3;

// Enlarging: an output inside one source sample takes it, one across an edge blends the two.
AxisTaps EnlargedAreaTaps(const AxisRequest& request, TapWeights weights) {
  AxisTaps axis = AllocateTaps(weights, request.count, 2);
  const int last = request.source_size - 1;
  const double inverse = static_cast<double>(request.resized_size) / request.source_size;
  const double scale = OpencvScale(request.source_size, request.resized_size);
  for (int i = 0; i < request.count; ++i) {
    const int output = request.begin + i;
    const int left = static_cast<int>(std::floor(output * scale));
    auto fraction = static_cast<float>((output + 1) - (left + 1) * inverse);
    fraction = fraction <= 0.0F ? 0.0F : fraction - std::floor(fraction);
    if (!request.rows && left >= last) fraction = 0.0F;
    const size_t entry = axis.Offset(i);
    axis.index[entry] = std::clamp(left, 0, last);
    axis.index[entry + 1] = std::clamp(left + 1, 0, last);
    SetWeight(axis, weights, entry, 1.0F - fraction);
    SetWeight(axis, weights, entry + 1, fraction);
  }
  return axis;
}

// Whole ratios: each output is the sum of its block, divided at the end.
AxisTaps BlockTaps(const AxisRequest& request, int ratio, int other_ratio) {
  AxisTaps axis = AllocateTaps(TapWeights::kFloat, request.count, ratio);
  for (size_t entry = 0; entry < axis.index.size(); ++entry) {
    axis.index[entry] = request.begin * ratio + static_cast<int>(entry);
    axis.float_weight[entry] = 1.0F;
  }
  axis.sum_scale = 1.0F / static_cast<float>(int64_t{ratio} * other_ratio);
  return axis;
}

// Any other ratio: each output is the mean of what it covers.
AxisTaps CoverTaps(const AxisRequest& request, double scale) {
  const int taps = static_cast<int>(std::ceil(scale)) + 1;
  AxisTaps axis = AllocateTaps(TapWeights::kFloat, request.count, taps);
  for (int i = 0; i < request.count; ++i) {
    const double begin = (request.begin + i) * scale;
    const double end = begin + scale;
    const double width = std::min(scale, request.source_size - begin);
    const int last = std::min(static_cast<int>(std::floor(end)), request.source_size - 1);
    const int first = std::min(static_cast<int>(std::ceil(begin)), last);
    size_t entry = axis.Offset(i);
    const auto add = [&](int index, double covered) {
      axis.index[entry] = index;
      axis.float_weight[entry++] = static_cast<float>(covered / width);
    };
    if (first - begin > kLeastCover) add(first - 1, first - begin);
    for (int index = first; index < last; ++index) add(index, 1.0);
    if (end - last > kLeastCover) add(last, std::min(std::min(end - last, 1.0), width));
    std::fill(axis.index.begin() + static_cast<ptrdiff_t>(entry),
              axis.index.begin() + static_cast<ptrdiff_t>(axis.Offset(i + 1)),
              axis.index[entry - 1]);
  }
  return axis;
}

}  // namespace

AxisTaps AreaTaps(const AxisRequest& request, bool eight_bit) {
  const double scale = OpencvScale(request.source_size, request.resized_size);
  const double other = OpencvScale(request.other_source_size, request.other_resized_size);
  const TapWeights two_taps = eight_bit ? TapWeights::kFixed11 : TapWeights::kFloat;
  if (scale < 1.0 || other < 1.0) return EnlargedAreaTaps(request, two_taps);
  if (eight_bit && scale == std::floor(scale) && other == std::floor(other)) {
    // Halving both axes rounds halves up, as the linear filter's arithmetic does.
    if (scale == 2.0 && other == 2.0) return LinearTaps(request, two_taps);
    return BlockTaps(request, static_cast<int>(scale), static_cast<int>(other));
  }
  return CoverTaps(request, scale);
}

}  // namespace endcap
