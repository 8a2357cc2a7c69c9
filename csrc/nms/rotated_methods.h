#pragma once

#include "common/score_order.h"
#include "nms/rotated_polygon.h"
#include "nms/rotated_probiou.h"

namespace endcap {

// What suppression needs to know of a way to compare rotated boxes: Box is a box made ready once,
// Prepare makes it from xywhr float32 [5], Overlaps says whether it can suppress or be suppressed
// at all, Iou is the definition, and Limit with Exceeds is a faster way to Iou > threshold.

struct PolygonMethod {
  using Box = RotatedBox;
  using Limit = float;

  ENDCAP_HOST_DEVICE static Box Prepare(const float* xywhr) { return MakeRotatedBox(xywhr); }
  ENDCAP_HOST_DEVICE static bool Overlaps(const Box& box) { return box.area > 0.0; }
  static float Iou(const Box& a, const Box& b) { return RotatedIou(a, b); }
  static Limit MakeLimit(double iou_threshold) { return FloatBelow(iou_threshold); }
  ENDCAP_HOST_DEVICE static bool Exceeds(const Box& a, const Box& b, Limit limit) {
    return RotatedIouExceeds(a, b, limit);
  }
};

struct ProbiouMethod {
  using Box = GaussianBox;
  using Limit = ProbiouLimit;

  ENDCAP_HOST_DEVICE static Box Prepare(const float* xywhr) { return MakeGaussianBox(xywhr); }
  ENDCAP_HOST_DEVICE static bool Overlaps(const Box&) { return true; }
  static float Iou(const Box& a, const Box& b) { return Probiou(a, b); }
  static Limit MakeLimit(double iou_threshold) { return MakeProbiouLimit(iou_threshold); }
  ENDCAP_HOST_DEVICE static bool Exceeds(const Box& a, const Box& b, const Limit& limit) {
    return ProbiouExceeds(a, b, limit);
  }
};

}  // namespace endcap
