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

// The same on a GPU, all pointers device memory: boxes_xyxy float32 [count][4], scores float32
// [count], class_ids int32 [count] or null. Writes the kept indices into `kept` (int64 [count]) and
// how many into `kept_count` (int64 [1]), in the order of `stream` (a cudaStream_t) and without
// waiting; a NaN score makes kept_count -1. Throws kInvalidArgument, kCuda, kOutOfMemory.
void NmsCuda(const float* boxes_xyxy, const float* scores, const int32_t* class_ids, int64_t count,
             const NmsOptions& options, int device_id, void* stream, int64_t* kept,
             int64_t* kept_count);

}  // namespace endcap
