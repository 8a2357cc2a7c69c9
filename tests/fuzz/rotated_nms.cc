// Suppression of rotated boxes: against its definition by RotatedIou, and the implementations
// against each other.

#include <cmath>

#include "agreement.h"
#include "crowd.h"
#include "endcap/nms.h"

namespace endcap::fuzz {
namespace {

void CheckIou(const std::vector<float>& iou, size_t count, RotatedNms method) {
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
  const size_t count = crowd.scores.size();
  std::vector<float> iou(count * count);
  RotatedIou(crowd.boxes, crowd.boxes, options.method, iou);
  CheckIou(iou, count, options.method);
  Outcome expected;
  expected.Add(SlowNms(crowd, options, options.method != RotatedNms::kProbiouFast,
                       [&](int64_t a, int64_t b) {
                         return iou[static_cast<size_t>(a) * count + static_cast<size_t>(b)];
                       }));
  RequireEqual(expected, outcome, "definition against kept boxes");
  return 0;
}
