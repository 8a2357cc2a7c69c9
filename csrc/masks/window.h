#pragma once

#include <cstddef>

#include "masks/taps.h"

namespace endcap {

// The pixels of a mask that lie in its box, and the prototype pixels around their centres.
struct MaskWindow {
  PixelRange columns, rows;
  PixelRange prototype_columns, prototype_rows;

  bool empty() const noexcept { return columns.empty() || rows.empty(); }
};

// A box's coordinates at prototype resolution to one of the model's input.
inline float BoxRatio(int prototypes, int input) {
  return static_cast<float>(static_cast<double>(prototypes) / static_cast<double>(input));
}

// `box` is xyxy in pixels of the model's input, any numbers.
MaskWindow ComputeMaskRegion(const float* box, const MaskPrototypes& prototypes,
                             const MaskPlan& plan, const MaskTaps& x, const MaskTaps& y);

// What a mask is made of.
struct MaskLogits {
  const MaskTaps& x;
  const MaskTaps& y;
  MaskWindow window;
  const float* values;  // of window.prototype_rows; the first is of window.prototype_columns.begin
  size_t stride;        // elements from row to row
};

}  // namespace endcap
