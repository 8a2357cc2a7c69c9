#include "endcap/nms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/fail.h"
#include "common/param_reader.h"
#include "common/score_order.h"
#include "common/select_implementation.h"
#include "nms/implementations.h"

namespace endcap {
namespace {

constexpr std::string_view kRotatedNames[] = {"polygon", "probiou", "probiou_fast"};

// Throws kInvalidArgument. `layout` names the numbers of a box in the error message, of which there
// are `numbers_per_box`.
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

// Returns the indices of the scores, best first, ties by ascending index.
std::vector<int64_t> SortIndices(std::span<const float> scores) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  return order;
}

// Memory that a thread keeps from call to call.
struct SortedKeys {
  std::vector<uint64_t> keys;
  std::vector<uint64_t> spare;

  void Trim() { TrimScratch(keys, spare); }
};

// Returns the order as keys of ScoreKey.
SortedKeys& SortScores(std::span<const float> scores) {
  thread_local SortedKeys sorted;
  sorted.keys.resize(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    sorted.keys[i] = ScoreKey(scores[i], static_cast<uint32_t>(i));
  }
  // Candidates from box_decode are in order already.
  if (!std::ranges::is_sorted(sorted.keys)) SortKeys(sorted.keys, sorted.spare);
  return sorted;
}

bool UsesSimd() { return SelectImplementation(Stage::kNms) == Implementation::kSimd; }

}  // namespace

void Nms(std::span<const float> boxes_xyxy, std::span<const float> scores,
         std::span<const int32_t> class_ids, const NmsOptions& options,
         std::vector<int64_t>& kept) {
  CheckNmsArguments(boxes_xyxy, 4, "x1,y1,x2,y2", scores, class_ids, options.iou_threshold);
  if (UsesSimd()) {
    SortedKeys& order = SortScores(scores);
    const TrimOnExit trim(order);
    NmsSimd(boxes_xyxy, class_ids, order.keys, options, kept);
  } else {
    NmsScalar(boxes_xyxy, class_ids, SortIndices(scores), options, kept);
  }
}

std::vector<int64_t> Nms(std::span<const float> boxes_xyxy, std::span<const float> scores,
                         std::span<const int32_t> class_ids, const NmsOptions& options) {
  std::vector<int64_t> kept;
  Nms(boxes_xyxy, scores, class_ids, options, kept);
  return kept;
}

std::span<const std::string_view> RotatedNmsNames() noexcept { return kRotatedNames; }

RotatedNms ParseRotatedNms(std::string_view name) {
  return ReadEnum<RotatedNms>("method", name, kRotatedNames);
}

void NmsRotated(std::span<const float> boxes_xywhr, std::span<const float> scores,
                std::span<const int32_t> class_ids, const RotatedNmsOptions& options,
                std::vector<int64_t>& kept) {
  CheckNmsArguments(boxes_xywhr, 5, "cx,cy,w,h,angle", scores, class_ids, options.iou_threshold);
  if (UsesSimd()) {
    SortedKeys& order = SortScores(scores);
    const TrimOnExit trim(order);
    NmsRotatedSimd(boxes_xywhr, class_ids, order.keys, options, kept);
  } else {
    NmsRotatedScalar(boxes_xywhr, class_ids, SortIndices(scores), options, kept);
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
