#include "postprocess/rotated_boxes.h"

#include <array>
#include <cmath>
#include <numbers>

#include "postprocess/output_rows.h"

namespace endcap {
namespace {

using Xywhr = std::array<double, 5>;

// The angle of `turned` (0 to 2 pi, any turn) that is nearest to `angle`.
double NearestTurn(double turned, double angle) {
  constexpr double kTurn = 2.0 * std::numbers::pi;
  return turned - kTurn * std::round((turned - angle) / kTurn);
}

Xywhr ToSource(const Xywhr& box, const Geometry& geometry) {
  const auto& [cx, cy, w, h, angle] = box;
  const double x_unit = 1.0 / geometry.scale_x;
  const double y_unit = 1.0 / geometry.scale_y;
  const double x = (cx - geometry.pad_x) * x_unit;
  const double y = (cy - geometry.pad_y) * y_unit;
  if (geometry.scale_x == geometry.scale_y) return {x, y, w * x_unit, h * y_unit, angle};
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  const double turned = std::atan2(sine * y_unit, cosine * x_unit);
  return {x, y, w * std::hypot(cosine * x_unit, sine * y_unit),
          h * std::hypot(sine * x_unit, cosine * y_unit), NearestTurn(turned, angle)};
}

}  // namespace

void WriteRotatedBoxes(std::span<const float> boxes_xywhr, std::span<const int64_t> kept,
                       const Geometry* geometry, const PostprocessOutput& output) {
  auto* corners = static_cast<float*>(output.tensors[kBoxesAt].data);
  auto* angles = static_cast<float*>(output.tensors[kExtraOutput].data);
  for (const int64_t from : kept) {
    const float* raw = boxes_xywhr.data() + 5 * from;
    Xywhr box = {raw[0], raw[1], raw[2], raw[3], raw[4]};
    if (geometry != nullptr) box = ToSource(box, *geometry);
    if (angles != nullptr) *angles++ = static_cast<float>(box[4]);
    if (corners == nullptr) continue;
    *corners++ = static_cast<float>(box[0] - 0.5 * box[2]);
    *corners++ = static_cast<float>(box[1] - 0.5 * box[3]);
    *corners++ = static_cast<float>(box[0] + 0.5 * box[2]);
    *corners++ = static_cast<float>(box[1] + 0.5 * box[3]);
  }
}

}  // namespace endcap
