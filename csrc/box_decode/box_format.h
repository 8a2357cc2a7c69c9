#pragma once

#include "common/host_device.h"

namespace endcap {

struct BoxXyxy {
  float x1, y1, x2, y2;
};

// Centre, width and height to corners.
ENDCAP_HOST_DEVICE inline BoxXyxy CornersOf(float cx, float cy, float w, float h) {
  const float half_w = w * 0.5F;
  const float half_h = h * 0.5F;
  return {cx - half_w, cy - half_h, cx + half_w, cy + half_h};
}

}  // namespace endcap
