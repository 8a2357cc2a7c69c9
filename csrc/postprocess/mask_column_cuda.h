#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "masks/masks.h"

namespace endcap {

// One column of a mask's pixels, interpolated along x between two columns of logits. Rows are
// counted from the first of the box.
struct MaskColumn {
  const float* left;
  const float* right;
  float weight;    // of the right one
  uint32_t pitch;  // from one row of the logits to the next
  uint32_t rows;   // of the logits
  const uint32_t* cells;
  const float* weights;

  __device__ float Value(uint32_t row) const {
    const uint64_t place = uint64_t{row} * pitch;
    return Interpolate(left[place], right[place], weight);
  }

  // From row to row of the logits, and only where their signs differ from pixel to pixel. `inside`:
  // whether the pixel before the first is. Calls change(row) where a pixel differs from the one
  // before; returns whether the last is inside.
  template <typename Change>
  __device__ bool ForEachChange(bool inside, Change change) const {
    float from = Value(0);
    for (uint32_t row = 0; row < rows; ++row) {
      const float to = row + 1 < rows ? Value(row + 1) : from;
      const uint32_t end = cells[row + 1];
      const bool one_sided = IsOneSided(from, to);
      for (uint32_t pixel = cells[row]; pixel < end; ++pixel) {
        const bool is_inside = one_sided ? from > 0.0F : Interpolate(from, to, weights[pixel]) > 0;
        if (is_inside != inside) change(pixel);
        inside = is_inside;
        if (one_sided) break;
      }
      from = to;
    }
    return inside;
  }

  // One pixel.
  __device__ bool IsInsideAt(uint32_t pixel) const {
    uint32_t row = 0;
    for (uint32_t last = rows; row + 1 < last;) {
      const uint32_t middle = row + (last - row) / 2;
      if (cells[middle] <= pixel) {
        row = middle;
      } else {
        last = middle;
      }
    }
    const float from = Value(row);
    return Interpolate(from, row + 1 < rows ? Value(row + 1) : from, weights[pixel]) > 0;
  }
};

}  // namespace endcap
