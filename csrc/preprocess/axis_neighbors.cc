#include <algorithm>
#include <array>
#include <cmath>

#include "preprocess/axis_methods.h"
#include "preprocess/resize_arithmetic.h"

// Methods with a fixed number of neighbours: nearest, linear, cubic.

namespace endcap {
namespace {

// Sources smaller than this along either axis get 11-bit cubic weights. Source: experiment with
// OpenCV 4.10 on x86-64.
constexpr int kOpencvFloatCubicMinSide = 4;

// Where output i lies: the sample to its left and the way from there, in float32 as in OpenCV.
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

}  // namespace

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

// Columns beyond the border take the border sample with weight 1; rows keep both weights and repeat
// the border row, which OpenCV's fixed-point sum can tell apart.
AxisTaps LinearTaps(const AxisRequest& request, TapWeights weights) {
  AxisTaps axis = AllocateTaps(weights, request.count, 2);
  const int last = request.source_size - 1;
  for (int i = 0; i < request.count; ++i) {
    auto [left, fraction] = ComputePosition(request, i);
    if (!request.rows && (left < 0 || left >= last)) fraction = 0.0F;
    const size_t entry = axis.Offset(i);
    axis.index[entry] = std::clamp(left, 0, last);
    axis.index[entry + 1] = std::clamp(left + 1, 0, last);
    SetWeight(axis, weights, entry, 1.0F - fraction);
    SetWeight(axis, weights, entry + 1, fraction);
  }
  return axis;
}

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

}  // namespace endcap
