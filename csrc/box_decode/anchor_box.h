#pragma once

#include "box_decode/box_format.h"
#include "common/elementary_functions.h"
#include "common/host_device.h"

namespace endcap {

// A box may be 1000/16 times as large as its anchor at most, as in Detectron and torchvision.
inline constexpr double kMaxLogSize = 4.135166556742356;

// An anchor's corners as centre, width and height.
ENDCAP_HOST_DEVICE inline BoxXyxy ToCentreForm(const BoxXyxy& corners) {
  const float w = corners.x2 - corners.x1;
  const float h = corners.y2 - corners.y1;
  return {corners.x1 + 0.5F * w, corners.y1 + 0.5F * h, w, h};
}

ENDCAP_HOST_DEVICE inline float ScaledSize(float offset, double variance, float side) {
  const double power = offset * variance;
  return static_cast<float>(Exponential(power > kMaxLogSize ? kMaxLogSize : power)) * side;
}

// The box that `offsets` from an anchor say, after the SSD paper (arXiv 1512.02325): the centre
// moves by parts of the anchor's size, width and height change by a factor in logarithms; each
// offset is multiplied by its variance first. `anchor` and the result are centre, width and height.
ENDCAP_HOST_DEVICE inline BoxXyxy BoxAtAnchor(const BoxXyxy& offsets, const BoxXyxy& anchor,
                                              const double* variances) {
  const auto& [cx, cy, w, h] = anchor;
  return {static_cast<float>(offsets.x1 * variances[0]) * w + cx,
          static_cast<float>(offsets.y1 * variances[1]) * h + cy,
          ScaledSize(offsets.x2, variances[2], w), ScaledSize(offsets.y2, variances[3], h)};
}

}  // namespace endcap
