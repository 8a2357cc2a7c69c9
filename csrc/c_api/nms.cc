#include "endcap/nms.h"

#include <algorithm>

#include "c_api/arguments.h"
#include "c_api/last_call.h"
#include "common/fail.h"

using endcap::c_api::Guarded;
using endcap::c_api::Require;
using endcap::c_api::RequireArray;

namespace {

constexpr int64_t kNoLimit = -1;

void CheckLimit(int64_t max_detections) {
  if (max_detections >= kNoLimit) return;
  endcap::FailArgument("max_detections is ", max_detections,
                       ": give how many are kept at most, or ", kNoLimit, " for all");
}

}  // namespace

endcap_status endcap_nms(const float* boxes, const float* scores, const int32_t* class_ids,
                         size_t count, double iou_threshold, int64_t max_detections, int64_t* kept,
                         int64_t* kept_count) {
  return Guarded([&] {
    RequireArray(boxes, "boxes", count);
    RequireArray(scores, "scores", count);
    RequireArray(kept, "kept", count);
    Require(kept_count, "kept_count");
    CheckLimit(max_detections);
    const std::vector<int64_t> indices =
        endcap::Nms({boxes, 4 * count}, {scores, count},
                    {class_ids, class_ids == nullptr ? 0 : count}, {iou_threshold, max_detections});
    std::copy(indices.begin(), indices.end(), kept);
    *kept_count = static_cast<int64_t>(indices.size());
  });
}

endcap_status endcap_nms_cuda(const float* boxes, const float* scores, const int32_t* class_ids,
                              size_t count, double iou_threshold, int64_t max_detections,
                              int32_t device, void* stream, int64_t* kept, int64_t* kept_count) {
  return Guarded([&] {
    RequireArray(boxes, "boxes", count);
    CheckLimit(max_detections);
    endcap::NmsCuda(boxes, scores, class_ids, static_cast<int64_t>(count),
                    {iou_threshold, max_detections}, device, stream, kept, kept_count);
  });
}
