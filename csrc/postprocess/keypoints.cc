#include "postprocess/map_box.h"
#include "postprocess/output_rows.h"

namespace endcap {

void WriteKeypoints(const HeadParams& head, std::span<const float> values, const Geometry* geometry,
                    float* keypoints) {
  const bool normalized = head.ResolvedBoxUnit() == BoxUnit::kNormalized;
  const float unit_x = normalized ? static_cast<float>(head.input_width) : 1.0F;
  const float unit_y = normalized ? static_cast<float>(head.input_height) : 1.0F;
  const auto step = static_cast<size_t>(head.keypoint_values);
  for (size_t at = 0; at + step <= values.size(); at += step) {
    float point[2] = {values[at] * unit_x, values[at + 1] * unit_y};
    if (geometry != nullptr) MapPoint(*geometry, point, point);
    *keypoints++ = point[0];
    *keypoints++ = point[1];
    *keypoints++ = step == 3 ? values[at + 2] : 1.0F;
  }
}

}  // namespace endcap
