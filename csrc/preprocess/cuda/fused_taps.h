#pragma once

#include <cstdint>
#include <vector>

#include "preprocess/cuda/fused_launch.h"
#include "preprocess/placement.h"
#include "preprocess/resize/axis_taps.h"

namespace endcap {

// The taps of one axis without an index for each: tap k of output i reads sample first[i] + k, or
// the nearest of the source's. `first` may lie outside the source, and never decreases.
struct CompactTaps {
  int taps = 0;
  std::vector<int32_t> first;
  std::vector<int32_t> weight;  // [outputs][taps]; of float weights the bits

  int size() const noexcept { return static_cast<int>(first.size()); }
};

// Throws kInternal for taps that cannot be written so; those of MakeAxisTaps can.
CompactTaps Compact(const AxisTaps& axis, int source_size);

// Both axes of one image, in words of FusedLaunch::tables.
struct FusedTaps {
  FusedAxis columns;
  FusedAxis rows;
  bool fixed_weights = false;
  float sum_scale = 1.0F;
};

// Appends the taps of an oriented source of width x height pixels, which goes where `placement`
// says.
FusedTaps AppendTaps(const PreprocessParams& params, const Placement& placement, int width,
                     int height, std::vector<int32_t>& words);

}  // namespace endcap
