#include "preprocess/resize/axis_taps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "preprocess/resize/resize_arithmetic.h"

namespace endcap {
namespace {

enum class TapWeights {
  kFixed11,  // OpenCV's 8-bit linear
  kFixed22,  // Pillow's 8-bit
  kFloat
};

// `count` outputs of `taps` entries each, all zero.
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

// Source samples per output sample, computed as OpenCV does: the inverse of an inverse.
inline double OpencvScale(int source_size, int resized_size) {
  return 1.0 / (static_cast<double>(resized_size) / source_size);
}

// --- a fixed number of neighbours: nearest, linear, cubic ---

// Sources smaller than this along either axis get 11-bit cubic weights. Source: experiment with
// OpenCV 4.10 on x86-64.
constexpr int kOpencvFloatCubicMinSide = 4;

// Where output i lies: the sample to its left and the distance from it, in float32 as in OpenCV.
struct Position {
  int left;
  float fraction;
};

Position ComputePosition(const AxisRequest& request, int i) {
  const double scale = OpencvScale(request.source_size, request.resized_size);
  const auto position = static_cast<float>((request.begin + i + 0.5) * scale - 0.5);
  const int left = static_cast<int>(std::floor(position));
  return {left, position - static_cast<float>(left)};
}

// Keys' cubic convolution with a = -0.75, in float32; the last weight makes the sum 1.
std::array<float, 4> CubicWeights(float x) {
  constexpr float kA = -0.75F;
  const float y = 1.0F - x;
  std::array<float, 4> weight{};
  weight[0] = ((kA * (x + 1.0F) - 5.0F * kA) * (x + 1.0F) + 8.0F * kA) * (x + 1.0F) - 4.0F * kA;
  weight[1] = ((kA + 2.0F) * x - (kA + 3.0F)) * x * x + 1.0F;
  weight[2] = ((kA + 2.0F) * y - (kA + 3.0F)) * y * y + 1.0F;
  weight[3] = 1.0F - weight[0] - weight[1] - weight[2];
  return weight;
}

// The sample under each output's centre.
AxisTaps NearestTaps(const AxisRequest& request, TapWeights weights) {
  AxisTaps axis = AllocateTaps(weights, request.count, 1);
  for (int i = 0; i < request.count; ++i) {
    // floor((output + 0.5) * source_size / resized_size), in whole numbers.
    const int64_t twice = 2 * (int64_t{request.begin} + i) + 1;
    const int64_t position = twice * request.source_size / (2 * int64_t{request.resized_size});
    axis.index[static_cast<size_t>(i)] = static_cast<int>(position);
    SetWeight(axis, weights, static_cast<size_t>(i), 1.0);
  }
  return axis;
}

// The two samples `left` and after it; beyond the border the border's.
void SetTwoTaps(AxisTaps& axis, TapWeights weights, int i, int left, float fraction, int last) {
  const size_t entry = axis.Offset(i);
  axis.index[entry] = std::clamp(left, 0, last);
  axis.index[entry + 1] = std::clamp(left + 1, 0, last);
  SetWeight(axis, weights, entry, 1.0F - fraction);
  SetWeight(axis, weights, entry + 1, fraction);
}

// The two neighbours. Source: OpenCV's INTER_LINEAR.
// Columns beyond the border take the border sample with weight 1; rows keep both weights and repeat
// the border row, which gives another fixed-point sum in OpenCV.
AxisTaps LinearTaps(const AxisRequest& request, TapWeights weights) {
  AxisTaps axis = AllocateTaps(weights, request.count, 2);
  const int last = request.source_size - 1;
  for (int i = 0; i < request.count; ++i) {
    auto [left, fraction] = ComputePosition(request, i);
    if (!request.rows && (left < 0 || left >= last)) fraction = 0.0F;
    SetTwoTaps(axis, weights, i, left, fraction, last);
  }
  return axis;
}

// The four neighbours, a = -0.75. Source: OpenCV's INTER_CUBIC; PyTorch's bicubic interpolate has
// the same weights. With eight_bit the weights of a picture with a side below four pixels are
// rounded to 1/2048, as OpenCV does there.
AxisTaps CubicTaps(const AxisRequest& request, bool eight_bit) {
  const bool round_weights = eight_bit && std::min(request.source_size, request.other_source_size) <
                                              kOpencvFloatCubicMinSide;
  AxisTaps axis = AllocateTaps(TapWeights::kFloat, request.count, 4);
  for (int i = 0; i < request.count; ++i) {
    const auto [left, fraction] = ComputePosition(request, i);
    const std::array<float, 4> weight = CubicWeights(fraction);
    for (int k = 0; k < 4; ++k) {
      const size_t entry = axis.Offset(i) + static_cast<size_t>(k);
      const float exact = weight[static_cast<size_t>(k)];
      axis.index[entry] = std::clamp(left - 1 + k, 0, request.source_size - 1);
      axis.float_weight[entry] =
          round_weights ? std::nearbyint(exact * kOpencvOne) / kOpencvOne : exact;
    }
  }
  return axis;
}

// --- OpenCV's INTER_AREA ---

// A cell that an output covers by no more than this is left out. Source: OpenCV 4, imgproc resize.
constexpr double kMinCover = 1e-3;

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
    SetTwoTaps(axis, weights, i, left, fraction, last);
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
    if (first - begin > kMinCover) add(first - 1, first - begin);
    for (int index = first; index < last; ++index) add(index, 1.0);
    if (end - last > kMinCover) add(last, std::min(std::min(end - last, 1.0), width));
    std::fill(axis.index.begin() + static_cast<ptrdiff_t>(entry),
              axis.index.begin() + static_cast<ptrdiff_t>(axis.Offset(i + 1)),
              axis.index[entry - 1]);
  }
  return axis;
}

// Every sample that the output covers, weighted by the share that it covers. An axis of a picture
// that grows along either axis gets two neighbours instead, blended only near the edges between
// source samples. Source: OpenCV's INTER_AREA; with eight_bit including what it does for whole
// ratios.
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

// --- kernels that widen with the shrinking ---

// A resampling kernel: its value at a signed distance from its centre, in samples, and the distance
// beyond which it is 0.
struct FilterKernel {
  double support;
  double (*value)(double distance);
};

double BoxValue(double distance) { return distance > -0.5 && distance <= 0.5 ? 1.0 : 0.0; }

double TriangleValue(double distance) {
  return std::abs(distance) < 1.0 ? 1.0 - std::abs(distance) : 0.0;
}

// Keys' cubic convolution with a = -0.5.
double CubicValue(double distance) {
  constexpr double kA = -0.5;
  const double x = std::abs(distance);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * kA;
  return 0.0;
}

// The kernel's samples are normalised to sum 1; computed in double. Source of the window and its
// rounding: Pillow's resample.
AxisTaps AntialiasTaps(const AxisRequest& request, TapWeights weights, const FilterKernel& kernel) {
  const double scale = static_cast<double>(request.source_size) / request.resized_size;
  const double filter_scale = std::max(scale, 1.0);
  const double support = kernel.support * filter_scale;
  const int taps = std::min(static_cast<int>(std::ceil(support)) * 2 + 1, request.source_size);
  AxisTaps axis = AllocateTaps(weights, request.count, taps);
  std::vector<double> values(static_cast<size_t>(taps));
  for (int i = 0; i < request.count; ++i) {
    const double center = (request.begin + i + 0.5) * scale;
    // NOLINTBEGIN(bugprone-incorrect-roundings): Pillow's, which truncates towards zero
    const int begin = std::max(static_cast<int>(center - support + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support + 0.5), request.source_size);
    // NOLINTEND(bugprone-incorrect-roundings)
    double total = 0.0;
    for (int k = 0; k < end - begin; ++k) {
      const double value = kernel.value((k + begin - center + 0.5) * (1.0 / filter_scale));
      values[static_cast<size_t>(k)] = value;
      total += value;
    }
    for (int k = 0; k < taps; ++k) {
      const size_t entry = axis.Offset(i) + static_cast<size_t>(k);
      axis.index[entry] = std::min(begin + k, end - 1);
      const bool used = k < end - begin;
      SetWeight(axis, weights, entry, used ? values[static_cast<size_t>(k)] / total : 0.0);
    }
  }
  return axis;
}

// --- choice ---

TapWeights SelectWeights(ResizeArithmetic arithmetic) {
  if (arithmetic == ResizeArithmetic::kOpencv8) return TapWeights::kFixed11;
  if (arithmetic == ResizeArithmetic::kPillow8) return TapWeights::kFixed22;
  return TapWeights::kFloat;
}

FilterKernel SelectKernel(Interpolation interpolation) {
  if (interpolation == Interpolation::kBicubic) return {2.0, CubicValue};
  if (interpolation == Interpolation::kArea) return {0.5, BoxValue};
  return {1.0, TriangleValue};
}

}  // namespace

ResizeArithmetic SelectArithmetic(const PreprocessParams& params) noexcept {
  if (params.quantize == Quantize::kNone) return ResizeArithmetic::kFloat;
  if (params.antialias) return ResizeArithmetic::kPillow8;
  if (params.interpolation == Interpolation::kNearest) return ResizeArithmetic::kPillow8;
  if (params.interpolation == Interpolation::kBilinear) return ResizeArithmetic::kOpencv8;
  return ResizeArithmetic::kOpencvFloat8;
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

AxisTaps MirrorTaps(AxisTaps axis, int source_size, bool reverse_outputs) {
  const auto run = reverse_outputs ? std::ssize(axis.index) : ptrdiff_t{axis.taps};
  const auto reverse_runs = [run](auto& values) {
    for (auto first = values.begin(); first != values.end(); first += run) {
      std::reverse(first, first + run);
    }
  };
  reverse_runs(axis.index);
  reverse_runs(axis.fixed_weight);
  reverse_runs(axis.float_weight);
  for (int& index : axis.index) index = source_size - 1 - index;
  return axis;
}

int RingRows(const AxisTaps& axis) noexcept {
  int rows = 1;
  for (int i = 0; i < axis.size(); ++i) rows = std::max(rows, axis.Last(i) - axis.First(i) + 1);
  return rows;
}

ColumnSpan NeededSamples(const AxisTaps& axis) {
  if (axis.index.empty()) return {0, 0};
  const auto [first, last] = std::ranges::minmax(axis.index);
  return {first, last + 1};
}

int NextNeeded(const AxisTaps& axis, int next, int sample, int none) noexcept {
  while (next < axis.size() && axis.Last(next) < sample) ++next;
  return next < axis.size() ? std::max(sample, axis.First(next)) : none;
}

}  // namespace endcap
