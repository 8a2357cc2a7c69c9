#pragma once

#include "common/host_device.h"

namespace endcap {

ENDCAP_HOST_DEVICE inline float BoxArea(const float* xyxy) {
  return (xyxy[2] - xyxy[0]) * (xyxy[3] - xyxy[1]);
}

ENDCAP_HOST_DEVICE inline float BoxIntersection(const float* a, const float* b) {
  const float left = a[0] > b[0] ? a[0] : b[0];
  const float top = a[1] > b[1] ? a[1] : b[1];
  const float right = a[2] < b[2] ? a[2] : b[2];
  const float bottom = a[3] < b[3] ? a[3] : b[3];
  const float width = right - left > 0.0F ? right - left : 0.0F;
  const float height = bottom - top > 0.0F ? bottom - top : 0.0F;
  return width * height;
}

// Intersection over union of two xyxy boxes in float32, without a coordinate offset. NaN when both
// are empty. The order of the operations is torchvision's.
ENDCAP_HOST_DEVICE inline float BoxIou(const float* a, float area_a, const float* b, float area_b) {
  const float intersection = BoxIntersection(a, b);
  return intersection / (area_a + area_b - intersection);
}

// Whether BoxIou > limit, for a limit that is not negative: boxes that do not meet need no
// division, since 0 divided by anything is not greater, nor is NaN.
ENDCAP_HOST_DEVICE inline bool IouExceeds(const float* a, float area_a, const float* b,
                                          float area_b, float limit) {
  const float intersection = BoxIntersection(a, b);
  return intersection > 0.0F && intersection / (area_a + area_b - intersection) > limit;
}

}  // namespace endcap
