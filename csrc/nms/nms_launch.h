#pragma once

#include <cstdint>

namespace endcap {

// NMS of one image; see NmsCuda. All pointers are device memory.
struct NmsLaunch {
  const float* boxes_xyxy;   // [count][4]
  const float* scores;       // [count]
  const int32_t* class_ids;  // [count], or null
  int64_t count;             // below 2^31
  int64_t max_detections;    // count where there is no limit
  float iou_limit;           // FloatBelow(iou_threshold)
  int64_t* kept;             // [count]
  int64_t* kept_count;       // [1]; -1 when a score is NaN
};

}  // namespace endcap
