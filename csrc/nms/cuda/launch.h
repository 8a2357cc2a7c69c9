#pragma once

#include <cstddef>
#include <cstdint>

#include "nms/cuda/rotated_launch.h"

namespace endcap {

// NMS of one image; see NmsCuda. All pointers are device memory.
struct NmsLaunch {
  const float* boxes_xyxy;   // [count][4]
  const float* scores;       // [count]
  const int32_t* class_ids;  // [count], or null
  int64_t count;             // below 2^31
  int64_t max_detections;    // count without a limit
  float iou_limit;           // GreatestFloatAtMost(iou_threshold)
  int64_t* kept;             // [count]
  int64_t* kept_count;       // [1]; -1 when a score is NaN
};

// Enqueues the launch on `stream` (a cudaStream_t) and does not wait. The kernels that it launches
// depend on the count alone, so that it can be captured into a graph. Allocates and frees about 190
// bytes of stream-ordered scratch a box. Throws kCuda, kOutOfMemory.
void LaunchNms(const NmsLaunch& launch, void* stream);

// NMS of one image's rotated boxes; see NmsRotatedCuda. All pointers are device memory.
struct RotatedNmsLaunch {
  const float* boxes_xywhr;  // [count][5]
  const float* scores;       // [count]
  const int32_t* class_ids;  // [count], or null
  int64_t count;             // below 2^31
  RotatedRule rule;
  RotatedScratchSize scratch;  // of `count` candidates; its rows are the limit, or `count`
  size_t scratch_bytes;        // RotatedScratchBytes of it
  int64_t* kept;               // [count]
  int64_t* kept_count;         // [1]; -1 when a score is NaN
};

// Enqueues the launch on `stream` (a cudaStream_t) and does not wait. The kernels that it launches
// depend on the count and the method, not on the data. Allocates and frees stream-ordered scratch:
// about 24 bytes a box, and 60 to 110 for each box that may suppress. Throws kCuda, kOutOfMemory.
void LaunchRotatedNms(const RotatedNmsLaunch& launch, void* stream);

}  // namespace endcap
