#pragma once

#include "common/host_device.h"
#include "common/map_box.h"

namespace endcap {

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

}  // namespace endcap
