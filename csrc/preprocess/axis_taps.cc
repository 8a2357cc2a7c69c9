#include "preprocess/axis_taps.h"

#include <cmath>

#include "preprocess/axis_methods.h"
#include "preprocess/resize_arithmetic.h"

namespace endcap {
namespace {

TapWeights SelectWeights(ResizeArithmetic arithmetic) {
  switch (arithmetic) {
    case ResizeArithmetic::kOpencv8:
      return TapWeights::kFixed11;
    case ResizeArithmetic::kPillow8:
      return TapWeights::kFixed22;
    case ResizeArithmetic::kOpencvFloat8:
    case ResizeArithmetic::kFloat:
      break;
  }
  return TapWeights::kFloat;
}

const FilterKernel& SelectKernel(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kBicubic:
      return kCubicKernel;
    case Interpolation::kArea:
      return kBoxKernel;
    case Interpolation::kNearest:
    case Interpolation::kBilinear:
      break;
  }
  return kTriangleKernel;
}

}  // namespace

AxisTaps AllocateTaps(TapWeights weights, int count, int taps) {
  AxisTaps axis;
  axis.taps = taps;
  const size_t entries = static_cast<size_t>(count) * static_cast<size_t>(taps);
  axis.index.resize(entries);
  if (weights == TapWeights::kFloat) {
    axis.float_weight.resize(entries);
  } else {
    axis.fixed_weight.resize(entries);
  }
  return axis;
}

void SetWeight(AxisTaps& axis, TapWeights weights, size_t entry, double weight) {
  switch (weights) {
    case TapWeights::kFixed11:
      axis.fixed_weight[entry] =
          static_cast<int32_t>(std::nearbyint(static_cast<float>(weight) * kOpencvOne));
      break;
    case TapWeights::kFixed22:
      axis.fixed_weight[entry] =
          static_cast<int32_t>(weight * kPillowOne + std::copysign(0.5, weight));
      break;
    case TapWeights::kFloat:
      axis.float_weight[entry] = static_cast<float>(weight);
      break;
  }
}

ResizeArithmetic SelectArithmetic(const PreprocessParams& params) noexcept {
  if (params.quantize == Quantize::kNone) return ResizeArithmetic::kFloat;
  if (params.antialias) return ResizeArithmetic::kPillow8;
  switch (params.interpolation) {
    case Interpolation::kBilinear:
      return ResizeArithmetic::kOpencv8;
    case Interpolation::kBicubic:
    case Interpolation::kArea:
      return ResizeArithmetic::kOpencvFloat8;
    case Interpolation::kNearest:
      break;
  }
  return ResizeArithmetic::kPillow8;
}

AxisTaps MakeAxisTaps(const PreprocessParams& params, const AxisRequest& request) {
  const ResizeArithmetic arithmetic = SelectArithmetic(params);
  const TapWeights weights = SelectWeights(arithmetic);
  const bool eight_bit = arithmetic != ResizeArithmetic::kFloat;
  if (params.antialias) return AntialiasTaps(request, weights, SelectKernel(params.interpolation));
  switch (params.interpolation) {
    case Interpolation::kBilinear:
      return LinearTaps(request, weights);
    case Interpolation::kBicubic:
      return CubicTaps(request, eight_bit);
    case Interpolation::kArea:
      return AreaTaps(request, eight_bit);
    case Interpolation::kNearest:
      break;
  }
  return NearestTaps(request, weights);
}

AxisTaps MirrorTaps(const AxisTaps& axis, int source_size) {
  AxisTaps mirrored = axis;
  for (int i = 0; i < axis.size(); ++i) {
    const auto begin = static_cast<ptrdiff_t>(axis.Offset(i));
    const auto end = static_cast<ptrdiff_t>(axis.Offset(i + 1));
    std::reverse(mirrored.index.begin() + begin, mirrored.index.begin() + end);
    if (!axis.fixed_weight.empty()) {
      std::reverse(mirrored.fixed_weight.begin() + begin, mirrored.fixed_weight.begin() + end);
    }
    if (!axis.float_weight.empty()) {
      std::reverse(mirrored.float_weight.begin() + begin, mirrored.float_weight.begin() + end);
    }
  }
  for (int& index : mirrored.index) index = source_size - 1 - index;
  return mirrored;
}

AxisTaps ReverseOutputs(const AxisTaps& axis) {
  AxisTaps reversed = axis;
  const auto taps = static_cast<size_t>(axis.taps);
  for (int i = 0; i < axis.size(); ++i) {
    const size_t from = axis.Offset(i);
    const size_t to = axis.Offset(axis.size() - 1 - i);
    std::copy_n(axis.index.begin() + static_cast<ptrdiff_t>(from), taps,
                reversed.index.begin() + static_cast<ptrdiff_t>(to));
    if (!axis.fixed_weight.empty()) {
      std::copy_n(axis.fixed_weight.begin() + static_cast<ptrdiff_t>(from), taps,
                  reversed.fixed_weight.begin() + static_cast<ptrdiff_t>(to));
    }
    if (!axis.float_weight.empty()) {
      std::copy_n(axis.float_weight.begin() + static_cast<ptrdiff_t>(from), taps,
                  reversed.float_weight.begin() + static_cast<ptrdiff_t>(to));
    }
  }
  return reversed;
}

int RingRows(const AxisTaps& axis) noexcept {
  int rows = 1;
  for (int i = 0; i < axis.size(); ++i) rows = std::max(rows, axis.Last(i) - axis.First(i) + 1);
  return rows;
}

int NextNeeded(const AxisTaps& axis, int next, int sample, int none) noexcept {
  while (next < axis.size() && axis.Last(next) < sample) ++next;
  return next < axis.size() ? std::max(sample, axis.First(next)) : none;
}

}  // namespace endcap
