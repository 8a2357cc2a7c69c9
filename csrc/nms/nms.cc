#include "endcap/nms.h"

#include "common/score_order.h"
#include "common/select_implementation.h"
#include "nms/nms_arguments.h"
#include "nms/nms_scalar.h"
#include "nms/nms_simd.h"

namespace endcap {
namespace {

void RunScalar(std::span<const float> boxes_xyxy, std::span<const float> scores,
               std::span<const int32_t> class_ids, const NmsOptions& options,
               std::vector<int64_t>& kept) {
  NmsScalar(boxes_xyxy, class_ids, BestFirst(scores), options, kept);
}

void RunSimd(std::span<const float> boxes_xyxy, std::span<const float> scores,
             std::span<const int32_t> class_ids, const NmsOptions& options,
             std::vector<int64_t>& kept) {
  // Memory that a thread keeps for its next call.
  thread_local std::vector<uint64_t> order;
  thread_local std::vector<uint64_t> spare;
  thread_local KeptBoxes kept_boxes;
  BestFirst(scores, order, spare);
  NmsSimd(boxes_xyxy, class_ids, order, options, kept_boxes, kept);
  TrimScratch(order);
  TrimScratch(spare);
  kept_boxes.Trim();
}

}  // namespace

void Nms(std::span<const float> boxes_xyxy, std::span<const float> scores,
         std::span<const int32_t> class_ids, const NmsOptions& options,
         std::vector<int64_t>& kept) {
  CheckNmsArguments(boxes_xyxy, 4, "x1,y1,x2,y2", scores, class_ids, options.iou_threshold);
  const auto run = SelectImplementation(Stage::kNms) == Implementation::kSimd ? RunSimd : RunScalar;
  run(boxes_xyxy, scores, class_ids, options, kept);
}

std::vector<int64_t> Nms(std::span<const float> boxes_xyxy, std::span<const float> scores,
                         std::span<const int32_t> class_ids, const NmsOptions& options) {
  std::vector<int64_t> kept;
  Nms(boxes_xyxy, scores, class_ids, options, kept);
  return kept;
}

}  // namespace endcap
