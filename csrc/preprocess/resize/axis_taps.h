#pragma once

#include <cstdint>
#include <vector>

#include "common/row_band.h"
#include "endcap/preprocess.h"

namespace endcap {

// The arithmetic of a resize.
enum class ResizeArithmetic {
  kOpencv8,       // 8-bit, two taps, 11-bit weights: OpenCV's INTER_LINEAR
  kOpencvFloat8,  // 8-bit, float32 weights and float32 between the passes, rounded once at the end:
                  // OpenCV's INTER_CUBIC and INTER_AREA
  kPillow8,       // 8-bit, any taps, 22-bit weights, 8 bits between the passes: Pillow's resize
  kFloat          // float32 throughout
};

ResizeArithmetic SelectArithmetic(const PreprocessParams& params) noexcept;

// Which source samples make each output sample along one axis, and with which weight. Output i has
// `taps` entries from i * taps on; entries that are not needed repeat the last index with weight 0.
// Indices never decrease, neither within an output nor from one output's first to the next's.
struct AxisTaps {
  int taps = 0;
  std::vector<int> index;
  // One of the two holds the weights. kOpencv8 and kPillow8 are fixed, kFloat is float;
  // kOpencvFloat8 is float but where OpenCV enlarges INTER_AREA as INTER_LINEAR, with two taps and
  // 11-bit weights.
  std::vector<int32_t> fixed_weight;
  std::vector<float> float_weight;
  // kOpencvFloat8, rows: what the sum over the taps is multiplied by before it is rounded.
  float sum_scale = 1.0F;

  int size() const noexcept { return static_cast<int>(index.size()) / taps; }
  int First(int output) const noexcept { return index[Offset(output)]; }
  int Last(int output) const noexcept { return index[Offset(output + 1) - 1]; }
  size_t Offset(int output) const noexcept {
    return static_cast<size_t>(output) * static_cast<size_t>(taps);
  }
};

// One axis of a resize from source_size to resized_size samples; outputs [begin, begin + count) of
// it. `rows` is true for the vertical axis, whose border OpenCV treats differently. The sizes of
// the other axis are there because OpenCV picks its method by both.
struct AxisRequest {
  int source_size = 0;
  int resized_size = 0;
  int begin = 0;
  int count = 0;
  bool rows = false;
  int other_source_size = 0;
  int other_resized_size = 0;
};

// Half-pixel centres: output i lies at (i + 0.5) * source_size / resized_size - 0.5.
AxisTaps MakeAxisTaps(const PreprocessParams& params, const AxisRequest& request);

// The outputs of an axis that is stored in reverse; reverse_outputs: from the last to the first.
// The order of an output's taps is reversed as well, so float sums would round in another order.
AxisTaps MirrorTaps(AxisTaps axis, int source_size, bool reverse_outputs);

// How many source samples must be kept, so that every output finds all its samples.
int RingRows(const AxisTaps& axis) noexcept;

// The source samples that any output needs.
ColumnSpan NeededSamples(const AxisTaps& axis);

// The first source sample from `sample` on that output `next` or one after it needs; `none` where
// no such sample is left.
int NextNeeded(const AxisTaps& axis, int next, int sample, int none) noexcept;

}  // namespace endcap
