#pragma once

#include <cstdint>
#include <limits>

#include "masks/region.h"

namespace endcap {

struct ClassLogits {
  const float* values;  // [classes][height][width], finite
  size_t classes, height, width;

  const float* row(size_t class_id, int32_t y) const noexcept {
    return values + (class_id * height + static_cast<size_t>(y)) * width;
  }
  // What the first class must be greater than to be chosen, and its id.
  float lowest() const noexcept {
    return classes == 1 ? 0.0F : -std::numeric_limits<float>::infinity();
  }
  size_t first_id() const noexcept { return classes == 1 ? 1 : 0; }
};

void MapLogitsSimd(const ClassLogits& logits, const MaskTaps& x, const MaskTaps& y, uint8_t* map);

}  // namespace endcap
