#pragma once

#include <cstddef>
#include <cstdint>

#include "nms/rotated_rule.h"

namespace endcap {

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

}  // namespace endcap
