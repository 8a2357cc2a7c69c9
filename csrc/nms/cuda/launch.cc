#include "nms/cuda/launch.h"

#include <limits>

#include "common/fail.h"
#include "common/score_order.h"
#include "cuda_library/kernel_table.h"
#include "cuda_runtime/runtime.h"
#include "endcap/nms.h"

namespace endcap {
namespace {

void CheckArguments(const float* boxes, const float* scores, const int32_t* class_ids,
                    int64_t count, double iou_threshold, const int64_t* kept,
                    const int64_t* kept_count) {
  if (count < 0 || count > std::numeric_limits<int32_t>::max()) {
    FailArgument("there are ", count, " boxes: at most ", std::numeric_limits<int32_t>::max(),
                 " can be handled");
  }
  if (!(iou_threshold >= 0.0 && iou_threshold <= 1.0)) {
    FailArgument("iou_threshold is ", iou_threshold, ": give a number from 0 to 1");
  }
  if (kept_count == nullptr ||
      (count > 0 && (boxes == nullptr || scores == nullptr || kept == nullptr))) {
    FailArgument("boxes, scores, kept and kept_count must not be null");
  }
  const auto aligned = [](const void* data, size_t bytes) {
    return reinterpret_cast<uintptr_t>(data) % bytes == 0;
  };
  if (!aligned(boxes, sizeof(float)) || !aligned(scores, sizeof(float)) ||
      !aligned(class_ids, sizeof(int32_t)) || !aligned(kept, sizeof(int64_t)) ||
      !aligned(kept_count, sizeof(int64_t))) {
    FailArgument("boxes, scores, class_ids, kept and kept_count must begin at multiples of their ",
                 "elements' sizes");
  }
}

// How many boxes can be kept.
int64_t Limit(int64_t max_detections, int64_t count) {
  return max_detections >= 0 && max_detections < count ? max_detections : count;
}

}  // namespace

void NmsCuda(const float* boxes_xyxy, const float* scores, const int32_t* class_ids, int64_t count,
             const NmsOptions& options, int device_id, void* stream, int64_t* kept,
             int64_t* kept_count) {
  CheckArguments(boxes_xyxy, scores, class_ids, count, options.iou_threshold, kept, kept_count);
  RequireCuda(device_id);
  const NmsLaunch launch = {boxes_xyxy,
                            scores,
                            class_ids,
                            count,
                            Limit(options.max_detections, count),
                            GreatestFloatAtMost(options.iou_threshold),
                            kept,
                            kept_count};
  CheckCuda(Kernels().nms(device_id, &launch, stream));
}

void NmsRotatedCuda(const float* boxes_xywhr, const float* scores, const int32_t* class_ids,
                    int64_t count, const RotatedNmsOptions& options, int device_id, void* stream,
                    int64_t* kept, int64_t* kept_count) {
  CheckArguments(boxes_xywhr, scores, class_ids, count, options.iou_threshold, kept, kept_count);
  RequireCuda(device_id);
  const RotatedScratchSize scratch =
      SizeRotatedScratch(options.method, static_cast<uint32_t>(count),
                         static_cast<uint32_t>(Limit(options.max_detections, count)));
  const RotatedNmsLaunch launch = {boxes_xywhr,
                                   scores,
                                   class_ids,
                                   count,
                                   MakeRotatedRule(options.method, options.iou_threshold),
                                   scratch,
                                   RotatedScratchBytes(options.method, scratch),
                                   kept,
                                   kept_count};
  CheckCuda(Kernels().nms_rotated(device_id, &launch, stream));
}

}  // namespace endcap
