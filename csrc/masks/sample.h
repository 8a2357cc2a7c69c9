#pragma once

#include <cstddef>

#include "common/host_device.h"
#include "masks/window.h"

namespace endcap {

// From `from` at weight 0 to `to` at weight 1, in float32. Finite between finite values, since each
// product loses at least what the weights' sum may exceed 1 by; between values of different signs
// it never turns back, since each product only falls or only rises.
ENDCAP_HOST_DEVICE inline float Interpolate(float from, float to, float weight) {
  return (1.0F - weight) * from + weight * to;
}

// Whether a pixel of the window, given by its position in the mask, belongs to the mask.
inline bool IsInside(const MaskLogits& mask, size_t x, size_t y) {
  const auto column = [&](int32_t prototype) {
    return static_cast<size_t>(prototype - mask.window.prototype_columns.begin);
  };
  const auto row = [&](int32_t prototype) {
    return mask.values +
           static_cast<size_t>(prototype - mask.window.prototype_rows.begin) * mask.stride;
  };
  const size_t left = column(mask.x.first[x]);
  const size_t right = column(mask.x.second[x]);
  const float* upper = row(mask.y.first[y]);
  const float* lower = row(mask.y.second[y]);
  const float weight = mask.x.weight[x];
  return Interpolate(Interpolate(upper[left], upper[right], weight),
                     Interpolate(lower[left], lower[right], weight), mask.y.weight[y]) > 0.0F;
}

}  // namespace endcap
