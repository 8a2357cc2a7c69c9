// Suppression of axis-aligned boxes: against its definition, and the implementations against each
// other.

#include "endcap/nms.h"

#include <cmath>

#include "agreement.h"
#include "crowd.h"

namespace endcap::fuzz {
namespace {

// torchvision's IoU in float32; NaN for two empty boxes.
float SlowIou(const BoxSet& crowd, int64_t first, int64_t second) {
  const float* a = &crowd.boxes[4 * static_cast<size_t>(first)];
  const float* b = &crowd.boxes[4 * static_cast<size_t>(second)];
  const float area_a = (a[2] - a[0]) * (a[3] - a[1]);
  const float area_b = (b[2] - b[0]) * (b[3] - b[1]);
  const float width = std::max(std::min(a[2], b[2]) - std::max(a[0], b[0]), 0.0F);
  const float height = std::max(std::min(a[3], b[3]) - std::max(a[1], b[1]), 0.0F);
  const float intersection = width * height;
  return intersection / (area_a + area_b - intersection);
}

bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const std::string_view target = PickSimdTarget(input);
  const NmsOptions options{PickThreshold(input), input.Happens(64) ? input.Int(0, 40) : -1};
  const BoxSet crowd = MakeAxisAlignedBoxes(input, 150);
  const Outcome outcome = RequireEqualPaths(target, "kept boxes", [&](Outcome& result) {
    result.Add(Nms(crowd.boxes, crowd.scores, crowd.class_ids, options));
  });
  RequireSameOnGpu(outcome, crowd, [&](auto boxes, auto scores, auto ids, auto kept, auto found) {
    NmsCuda(boxes, scores, ids, std::ssize(crowd.scores), options, 0, nullptr, kept, found);
  });
  // Infinite sides are not compared: std::min and the definition order NaN in ways of their own.
  if (!outcome.ok() || !AllFinite(crowd.boxes)) return 0;
  Outcome expected;
  expected.Add(SlowNms(crowd, options, /*greedy=*/true,
                       [&](int64_t a, int64_t b) { return SlowIou(crowd, a, b); }));
  RequireEqual(expected, outcome, "definition against kept boxes");
  return 0;
}
