#include "nms/nms_arguments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/fail.h"
#include "common/score_order.h"

namespace endcap {

void CheckNmsArguments(std::span<const float> boxes, size_t numbers_per_box,
                       std::string_view layout, std::span<const float> scores,
                       std::span<const int32_t> class_ids, double iou_threshold) {
  if (boxes.size() != scores.size() * numbers_per_box) {
    FailArgument("boxes hold ", boxes.size(), " numbers for ", scores.size(),
                 " scores: each score needs ", numbers_per_box, ", ", layout);
  }
  if (scores.size() > std::numeric_limits<int32_t>::max()) {
    FailArgument("there are ", scores.size(), " boxes: at most ",
                 std::numeric_limits<int32_t>::max(), " can be handled");
  }
  if (!class_ids.empty() && class_ids.size() != scores.size()) {
    FailArgument("class_ids has ", class_ids.size(), " entries for ", scores.size(), " scores");
  }
  if (!(iou_threshold >= 0.0 && iou_threshold <= 1.0)) {
    FailArgument("iou_threshold is ", iou_threshold, ": give a number from 0 to 1");
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) FailArgument("score ", i, " is NaN: scores must have an order");
  }
}

std::vector<int64_t> BestFirst(std::span<const float> scores) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  return order;
}

void BestFirst(std::span<const float> scores, std::vector<uint64_t>& order,
               std::vector<uint64_t>& spare) {
  order.resize(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    order[i] = ScoreKey(scores[i], static_cast<uint32_t>(i));
  }
  // Candidates from box_decode are in order already.
  if (!std::is_sorted(order.begin(), order.end())) SortKeys(order, spare);
}

}  // namespace endcap
