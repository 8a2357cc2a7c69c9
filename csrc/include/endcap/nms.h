#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace endcap {

struct NmsOptions {
  // A box is suppressed when its IoU with a kept box is greater than this. double, as torchvision
  // compares. 0 to 1.
  double iou_threshold = 0.7;
  int64_t max_detections = -1;  // stop after so many kept boxes; -1: no limit
};

// Exact greedy non-maximum suppression of one image.
//   boxes_xyxy [N][4] float32, any unit; scores [N] float32; class_ids [N] int32 or empty (one
//   class): boxes of different classes never suppress each other.
// Returns the indices of the kept boxes, best score first; equal scores go to the lower index.
// IoU is computed in float32 without a coordinate offset; a NaN IoU (two empty boxes) does not
// suppress. Throws kInvalidArgument when lengths differ, iou_threshold is outside [0, 1], a
// score is NaN, or there are 2^31 boxes or more. Deterministic; thread-safe.
std::vector<int64_t> Nms(std::span<const float> boxes_xyxy, std::span<const float> scores,
                         std::span<const int32_t> class_ids, const NmsOptions& options);

// The same into a vector of the caller's, which is replaced. The simd path allocates nothing once
// the calling thread and `kept` have had a call of that size.
void Nms(std::span<const float> boxes_xyxy, std::span<const float> scores,
         std::span<const int32_t> class_ids, const NmsOptions& options, std::vector<int64_t>& kept);

}  // namespace endcap
