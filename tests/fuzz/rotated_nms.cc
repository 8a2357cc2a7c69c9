// Suppression of rotated boxes: against its definition by RotatedIou, and the implementations
// against each other.

#include <cmath>
#include <numeric>

#include "agreement.h"
#include "crowd.h"
#include "endcap/nms.h"

namespace endcap::fuzz {
namespace {

std::vector<int64_t> SlowNms(const BoxSet& crowd, const RotatedNmsOptions& options) {
  const size_t count = crowd.scores.size();
  std::vector<float> iou(count * count);
  RotatedIou(crowd.boxes, crowd.boxes, options.method, iou);
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return crowd.scores[static_cast<size_t>(a)] > crowd.scores[static_cast<size_t>(b)];
  });
  const bool greedy = options.method != RotatedNms::kProbiouFast;
  std::vector<int64_t> kept;
  std::vector<int64_t> better;
  for (const int64_t i : order) {
    if (options.max_detections >= 0 && std::ssize(kept) >= options.max_detections) break;
    const auto& others = greedy ? kept : better;
    const bool suppressed = std::any_of(others.begin(), others.end(), [&](int64_t k) {
      const size_t pair = static_cast<size_t>(k) * count + static_cast<size_t>(i);
      return crowd.GetClass(k) == crowd.GetClass(i) && double{iou[pair]} > options.iou_threshold;
    });
    better.push_back(i);
    if (!suppressed) kept.push_back(i);
  }
  return kept;
}

void CheckIou(const BoxSet& crowd, RotatedNms method) {
  const size_t count = crowd.scores.size();
  std::vector<float> iou(count * count);
  RotatedIou(crowd.boxes, crowd.boxes, method, iou);
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = 0; b < count; ++b) {
      const float there = iou[a * count + b];
      const float back = iou[b * count + a];
      Require(there == back || (std::isnan(there) && std::isnan(back)), "IoU of boxes ", a, " and ",
              b, " is ", there, ", the other way ", back);
      if (method != RotatedNms::kPolygon) continue;
      Require(std::isnan(there) || (there >= 0.0F && there <= 1.0F), "IoU of boxes ", a, " and ", b,
              " is ", there);
    }
  }
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const std::string_view target = PickSimdTarget(input);
  const RotatedNmsOptions options{PickThreshold(input),
                                  input.Happens(64) ? input.Int(0, 20) : int64_t{-1},
                                  input.PickEnum(RotatedNms::kProbiouFast)};
  const BoxSet crowd = MakeRotatedBoxes(input, 40);
  const Outcome outcome = RequireEqualPaths(target, "kept boxes", [&](Outcome& result) {
    result.Add(NmsRotated(crowd.boxes, crowd.scores, crowd.class_ids, options));
  });
  RequireSameOnGpu(outcome, crowd, [&](auto boxes, auto scores, auto ids, auto kept, auto found) {
    NmsRotatedCuda(boxes, scores, ids, std::ssize(crowd.scores), options, 0, nullptr, kept, found);
  });
  if (!outcome.ok()) return 0;
  CheckIou(crowd, options.method);
  Outcome expected;
  expected.Add(SlowNms(crowd, options));
  RequireEqual(expected, outcome, "definition against kept boxes");
  return 0;
}
