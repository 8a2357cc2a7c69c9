#include "endcap/nms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/fail.h"
#include "common/path_select.h"
#include "common/score_order.h"
#include "nms/nms_scalar.h"
#include "nms/nms_simd.h"

namespace endcap {
namespace {

void CheckArguments(std::span<const float> boxes_xyxy, std::span<const float> scores,
                    std::span<const int32_t> class_ids, const NmsOptions& options) {
  if (boxes_xyxy.size() != scores.size() * 4) {
    FailArgument("boxes hold ", boxes_xyxy.size(), " numbers for ", scores.size(),
                 " scores: each score needs 4, x1,y1,x2,y2");
  }
  if (scores.size() > std::numeric_limits<int32_t>::max()) {
    FailArgument("there are ", scores.size(), " boxes: at most ",
                 std::numeric_limits<int32_t>::max(), " can be handled");
  }
  if (!class_ids.empty() && class_ids.size() != scores.size()) {
    FailArgument("class_ids has ", class_ids.size(), " entries for ", scores.size(), " scores");
  }
  if (!(options.iou_threshold >= 0.0 && options.iou_threshold <= 1.0)) {
    FailArgument("iou_threshold is ", options.iou_threshold, ": give a number from 0 to 1");
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) FailArgument("score ", i, " is NaN: scores must have an order");
  }
}

void RunScalar(std::span<const float> boxes_xyxy, std::span<const float> scores,
               std::span<const int32_t> class_ids, const NmsOptions& options,
               std::vector<int64_t>& kept) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  NmsScalar(boxes_xyxy, class_ids, order, options, kept);
}

void RunSimd(std::span<const float> boxes_xyxy, std::span<const float> scores,
             std::span<const int32_t> class_ids, const NmsOptions& options,
             std::vector<int64_t>& kept) {
  // Memory that a thread keeps for its next call.
  thread_local std::vector<uint64_t> order;
  thread_local std::vector<uint64_t> spare;
  thread_local KeptBoxes kept_boxes;
  order.resize(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    order[i] = ScoreKey(scores[i], static_cast<uint32_t>(i));
  }
  // Candidates from box_decode are in order already.
  if (!std::is_sorted(order.begin(), order.end())) SortKeys(order, spare);
  NmsSimd(boxes_xyxy, class_ids, order, options, kept_boxes, kept);
  TrimScratch(order);
  TrimScratch(spare);
  kept_boxes.Trim();
}

}  // namespace

void Nms(std::span<const float> boxes_xyxy, std::span<const float> scores,
         std::span<const int32_t> class_ids, const NmsOptions& options,
         std::vector<int64_t>& kept) {
  CheckArguments(boxes_xyxy, scores, class_ids, options);
  const auto run = SelectPath(Stage::kNms) == Path::kSimd ? RunSimd : RunScalar;
  run(boxes_xyxy, scores, class_ids, options, kept);
}

std::vector<int64_t> Nms(std::span<const float> boxes_xyxy, std::span<const float> scores,
                         std::span<const int32_t> class_ids, const NmsOptions& options) {
  std::vector<int64_t> kept;
  Nms(boxes_xyxy, scores, class_ids, options, kept);
  return kept;
}

}  // namespace endcap
