#pragma once

#include "common/host_device.h"
#include "endcap/geometry.h"

namespace endcap {

ENDCAP_HOST_DEVICE inline float ClipTo(float value, float low, float high) {
  return value < low ? low : (value > high ? high : value);
}

// A point in pixels of the model's input -> pixels of the source image, clipped to it.
// In place, too.
ENDCAP_HOST_DEVICE inline void MapPoint(const Geometry& geometry, const float* xy, float* mapped) {
  mapped[0] = ClipTo((xy[0] - geometry.pad_x) / geometry.scale_x, 0.0F, geometry.image_w);
  mapped[1] = ClipTo((xy[1] - geometry.pad_y) / geometry.scale_y, 0.0F, geometry.image_h);
}

// The same for a box's two corners.
ENDCAP_HOST_DEVICE inline void MapBox(const Geometry& geometry, const float* box, float* mapped) {
  MapPoint(geometry, box, mapped);
  MapPoint(geometry, box + 2, mapped + 2);
}

// Whether something of the box is left after that.
ENDCAP_HOST_DEVICE inline bool HasMappedArea(const Geometry& geometry, const float* box) {
  float mapped[4];
  MapBox(geometry, box, mapped);
  return mapped[0] < mapped[2] && mapped[1] < mapped[3];
}

}  // namespace endcap
