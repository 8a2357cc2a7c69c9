#pragma once

#include "common/host_device.h"
#include "endcap/box_decode.h"

namespace endcap {

struct BoxXyxy {
  float x1, y1, x2, y2;
};

// Centre, width and height to corners.
ENDCAP_HOST_DEVICE inline BoxXyxy ToCorners(float cx, float cy, float w, float h) {
  const float half_w = w * 0.5F;
  const float half_h = h * 0.5F;
  return {cx - half_w, cy - half_h, cx + half_w, cy + half_h};
}

// Four numbers of a head as corners in pixels of the model's input, whose size `width` and `height`
// are. Neither `format` nor `unit` is kFamilyDefault.
ENDCAP_HOST_DEVICE inline BoxXyxy BoxInPixels(const BoxXyxy& raw, BoxFormat format, BoxUnit unit,
                                              float width, float height) {
  BoxXyxy box = raw;
  if (format == BoxFormat::kCxcywh) box = ToCorners(raw.x1, raw.y1, raw.x2, raw.y2);
  if (unit == BoxUnit::kNormalized) {
    box = {box.x1 * width, box.y1 * height, box.x2 * width, box.y2 * height};
  }
  return box;
}

}  // namespace endcap
