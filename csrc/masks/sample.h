#pragma once

#include <cstddef>

#include "masks/window.h"

namespace endcap {

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
