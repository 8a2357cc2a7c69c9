#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "endcap/nms.h"
#include "nms/rotated_suppressors.h"

namespace endcap {

// Memory of NmsRotatedSimd.
struct RotatedScratch {
  RotatedSuppressors<RotatedBox> polygons;
  RotatedSuppressors<GaussianBox> gaussians;
};

// As NmsRotatedScalar, bit for bit: the same comparisons, less those that RotatedBounds proves to
// be without effect, several at a time. `order` holds keys of ScoreKey, best first. Replaces
// `kept`.
void NmsRotatedSimd(std::span<const float> boxes_xywhr, std::span<const int32_t> class_ids,
                    std::span<const uint64_t> order, const RotatedNmsOptions& options,
                    RotatedScratch& scratch, std::vector<int64_t>& kept);

}  // namespace endcap
