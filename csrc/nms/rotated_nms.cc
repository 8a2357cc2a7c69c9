#include "common/param_reader.h"
#include "common/score_order.h"
#include "common/select_implementation.h"
#include "endcap/nms.h"
#include "nms/nms_arguments.h"
#include "nms/rotated_scalar.h"
#include "nms/rotated_simd.h"

namespace endcap {
namespace {

constexpr std::string_view kNames[] = {"polygon", "probiou", "probiou_fast"};

void RunSimd(std::span<const float> boxes_xywhr, std::span<const float> scores,
             std::span<const int32_t> class_ids, const RotatedNmsOptions& options,
             std::vector<int64_t>& kept) {
  // Memory that a thread keeps for its next call.
  thread_local std::vector<uint64_t> order;
  thread_local std::vector<uint64_t> spare;
  thread_local RotatedScratch scratch;
  BestFirst(scores, order, spare);
  NmsRotatedSimd(boxes_xywhr, class_ids, order, options, scratch, kept);
  TrimScratch(order);
  TrimScratch(spare);
}

}  // namespace

std::span<const std::string_view> RotatedNmsNames() noexcept { return kNames; }

RotatedNms ParseRotatedNms(std::string_view name) {
  return ReadEnum<RotatedNms>("method", name, kNames);
}

void NmsRotated(std::span<const float> boxes_xywhr, std::span<const float> scores,
                std::span<const int32_t> class_ids, const RotatedNmsOptions& options,
                std::vector<int64_t>& kept) {
  CheckNmsArguments(boxes_xywhr, 5, "cx,cy,w,h,angle", scores, class_ids, options.iou_threshold);
  if (SelectImplementation(Stage::kNms) == Implementation::kSimd) {
    RunSimd(boxes_xywhr, scores, class_ids, options, kept);
  } else {
    NmsRotatedScalar(boxes_xywhr, class_ids, BestFirst(scores), options, kept);
  }
}

std::vector<int64_t> NmsRotated(std::span<const float> boxes_xywhr, std::span<const float> scores,
                                std::span<const int32_t> class_ids,
                                const RotatedNmsOptions& options) {
  std::vector<int64_t> kept;
  NmsRotated(boxes_xywhr, scores, class_ids, options, kept);
  return kept;
}

}  // namespace endcap
