#pragma once

#include "common/host_device.h"
#include "endcap/geometry.h"

namespace endcap {

ENDCAP_HOST_DEVICE inline float ClipTo(float value, float low, float high) {
  return value < low ? low : (value > high ? high : value);
}

// A box in pixels of the model's input -> pixels of the source image, clipped to it.
ENDCAP_HOST_DEVICE inline void MapBox(const Geometry& geometry, const float* box, float* mapped) {
  mapped[0] = ClipTo((box[0] - geometry.pad_x) / geometry.scale_x, 0.0F, geometry.image_w);
  mapped[1] = ClipTo((box[1] - geometry.pad_y) / geometry.scale_y, 0.0F, geometry.image_h);
  mapped[2] = ClipTo((box[2] - geometry.pad_x) / geometry.scale_x, 0.0F, geometry.image_w);
  mapped[3] = ClipTo((box[3] - geometry.pad_y) / geometry.scale_y, 0.0F, geometry.image_h);
}

}  // namespace endcap
