#include "postprocess/keypoint.h"
#include "postprocess/output_rows.h"

namespace endcap {

KeypointRule MakeKeypointRule(const HeadParams& head) {
  const bool normalized = head.ResolvedBoxUnit() == BoxUnit::kNormalized;
  return {normalized ? static_cast<float>(head.input_width) : 1.0F,
          normalized ? static_cast<float>(head.input_height) : 1.0F, head.keypoint_values == 3};
}

void WriteKeypoints(const HeadParams& head, std::span<const float> values, const Geometry* geometry,
                    float* keypoints) {
  const KeypointRule rule = MakeKeypointRule(head);
  const auto step = static_cast<size_t>(head.keypoint_values);
  for (size_t at = 0; at + step <= values.size(); at += step) {
    MakeKeypoint(rule, values.data() + at, geometry, keypoints);
    keypoints += 3;
  }
}

}  // namespace endcap
