#pragma once

#include "preprocess/axis_taps.h"
#include "preprocess/filter_kernels.h"

namespace endcap {

// The methods that MakeAxisTaps chooses from, and what they are built with.

enum class TapWeights {
  kFixed11,  // OpenCV's 8-bit linear
  kFixed22,  // Pillow's 8-bit
  kFloat
};

// `count` outputs of `taps` entries each, all zero.
AxisTaps AllocateTaps(TapWeights weights, int count, int taps);

void SetWeight(AxisTaps& axis, TapWeights weights, size_t entry, double weight);

// Source samples per output sample, computed as OpenCV does: the inverse of an inverse.
inline double OpencvScale(int source_size, int resized_size) {
  return 1.0 / (static_cast<double>(resized_size) / source_size);
}

// The sample under each output's centre.
AxisTaps NearestTaps(const AxisRequest& request, TapWeights weights);

// The two neighbours. Source: OpenCV's INTER_LINEAR.
AxisTaps LinearTaps(const AxisRequest& request, TapWeights weights);

// The four neighbours, a = -0.75. Source: OpenCV's INTER_CUBIC; PyTorch's bicubic interpolate has
// the same weights. With eight_bit the weights of a picture with a side below four pixels are
// rounded to 1/2048, as OpenCV does there.
AxisTaps CubicTaps(const AxisRequest& request, bool eight_bit);

// Every sample that the output covers, weighted by the share that it covers. An axis of a picture
// that grows along either axis gets two neighbours instead, blended only near the edges between
// source samples. Source: OpenCV's INTER_AREA; with eight_bit including what it does for whole
// ratios.
AxisTaps AreaTaps(const AxisRequest& request, bool eight_bit);

// A kernel that widens with the shrinking. Source: Pillow's resize.
AxisTaps AntialiasTaps(const AxisRequest& request, TapWeights weights, const FilterKernel& kernel);

}  // namespace endcap
