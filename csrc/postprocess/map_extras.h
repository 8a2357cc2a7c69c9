#pragma once

#include <cmath>
#include <cstdint>

#include "common/elementary_functions.h"
#include "common/host_device.h"
#include "common/map_box.h"
#include "endcap/geometry.h"

namespace endcap {

// What the CPU and kernels share: positions of outputs, and the arithmetic of keypoints and rotated
// boxes in pixels of the source image.

// Positions in PostprocessOutputs; `status` is the last of either.
enum DetectionOutput : uint32_t {
  kNumOutput,
  kBoxesOutput,
  kScoresOutput,
  kClassesOutput,
  kIndicesOutput,
  kExtraOutput  // the first of the family's own
};
enum ClassificationOutput : uint32_t {
  kClassScoresOutput,
  kClassIdsOutput,
  kProbabilitiesOutput,
  kClassStatusOutput
};

// How a head's numbers become keypoints.
struct KeypointRule {
  float unit_x;  // what x is in pixels of the model's input
  float unit_y;
  int has_visibility;  // not 0: three numbers for each, else two
};

// x, y and visibility (1 where there is none) of one keypoint, mapped by `geometry` (null: as they
// are).
ENDCAP_HOST_DEVICE inline void MakeKeypoint(const KeypointRule& rule, const float* values,
                                            const Geometry* geometry, float* keypoint) {
  keypoint[0] = values[0] * rule.unit_x;
  keypoint[1] = values[1] * rule.unit_y;
  if (geometry != nullptr) MapPoint(*geometry, keypoint, keypoint);
  keypoint[2] = rule.has_visibility != 0 ? values[2] : 1.0F;
}

// A rotated box in pixels of the source image; the angle in radians.
struct SourceBox {
  double cx, cy;
  double w, h;
  double angle;
};

// xywhr float32 [5] in pixels of the model's input, mapped by `geometry` (null: unmapped).
//
// Scales that differ in x and y make a parallelogram of a rectangle. Its sides keep their lengths
// and the first its direction; the result is the rectangle with these, which is the same for
// equal scales. Its angle is less than a quarter turn from the one before.
ENDCAP_HOST_DEVICE inline SourceBox RotatedToSource(const float* xywhr, const Geometry* geometry) {
  const SourceBox box = {xywhr[0], xywhr[1], xywhr[2], xywhr[3], xywhr[4]};
  if (geometry == nullptr) return box;
  const double x_unit = 1.0 / geometry->scale_x;
  const double y_unit = 1.0 / geometry->scale_y;
  const double x = (box.cx - geometry->pad_x) * x_unit;
  const double y = (box.cy - geometry->pad_y) * y_unit;
  if (geometry->scale_x == geometry->scale_y) {
    return {x, y, box.w * x_unit, box.h * y_unit, box.angle};
  }
  const auto [cos, sin] = ComputeCosSin(xywhr[4]);
  const double cos2 = cos * cos;
  const double sin2 = sin * sin;
  const double x_unit2 = x_unit * x_unit;
  const double y_unit2 = y_unit * y_unit;
  // From (cos, sin) to (cos * x_unit, sin * y_unit), by their cross and dot products.
  const double rotation = ArcTangent(cos * sin * (y_unit - x_unit), cos2 * x_unit + sin2 * y_unit);
  return {x, y, box.w * std::sqrt(cos2 * x_unit2 + sin2 * y_unit2),
          box.h * std::sqrt(sin2 * x_unit2 + cos2 * y_unit2), box.angle + rotation};
}

// The same rectangle as of AngleRange::kLe90: its angle taken modulo a quarter turn in float32, as
// ultralytics' regularize_rboxes does.
ENDCAP_HOST_DEVICE inline SourceBox ToLe90(const SourceBox& box) {
  constexpr float kQuarterTurn = 1.57079637F;
  const auto angle = static_cast<float>(box.angle);
  const auto modulo = [angle](float turn) {
    const float rest = std::fmod(angle, turn);
    return rest < 0.0F ? rest + turn : rest + 0.0F;  // not -0
  };
  float rest = modulo(kQuarterTurn);
  bool exchanges = modulo(2.0F * kQuarterTurn) >= kQuarterTurn;
  // A negative angle next to a multiple of the quarter turn is rounded up to the next one.
  if (rest >= kQuarterTurn) {
    rest = 0.0F;
    exchanges = !exchanges;
  }
  return {box.cx, box.cy, exchanges ? box.h : box.w, exchanges ? box.w : box.h, rest};
}

// The corners that the box has before it is rotated around its centre: float32 [4].
ENDCAP_HOST_DEVICE inline void UnrotatedCorners(const SourceBox& box, float* xyxy) {
  xyxy[0] = static_cast<float>(box.cx - 0.5 * box.w);
  xyxy[1] = static_cast<float>(box.cy - 0.5 * box.h);
  xyxy[2] = static_cast<float>(box.cx + 0.5 * box.w);
  xyxy[3] = static_cast<float>(box.cy + 0.5 * box.h);
}

}  // namespace endcap
