#include "endcap/nms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/fail.h"
#include "common/path_select.h"
#include "nms/nms_scalar.h"

namespace endcap {
namespace {

void CheckArguments(std::span<const float> boxes_xyxy, std::span<const float> scores,
                    std::span<const int32_t> class_ids, const NmsOptions& options) {
  if (boxes_xyxy.size() != scores.size() * 4) {
    FailArgument("boxes hold ", boxes_xyxy.size(), " numbers for ", scores.size(),
                 " scores: each score needs 4, x1,y1,x2,y2");
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

}  // namespace

std::vector<int64_t> Nms(std::span<const float> boxes_xyxy, std::span<const float> scores,
                         std::span<const int32_t> class_ids, const NmsOptions& options) {
  CheckArguments(boxes_xyxy, scores, class_ids, options);
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  SelectPath(Stage::kNms);
  return NmsScalar(boxes_xyxy, class_ids, order, options);
}

}  // namespace endcap
