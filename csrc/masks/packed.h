#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "masks/window.h"

namespace endcap {

// Sets the bits of a mask: `out` [height][row_bytes] holds zeros. See WritePackedMasks.
void PackMaskScalar(const MaskLogits& mask, size_t row_bytes, uint8_t* out);

// Memory of PackMaskSimd: the mask's columns from a whole byte to a whole byte, in each byte the
// last column first, as its bits lie.
struct PackedColumns {
  std::vector<int32_t> left, right;  // columns of the logits
  std::vector<float> weight;         // of the right one
  std::vector<float> rows;           // two rows of prototype pixels, interpolated along x

  void Trim();
};

// The same, bit for bit.
void PackMaskSimd(const MaskLogits& mask, size_t row_bytes, PackedColumns& columns, uint8_t* out);

}  // namespace endcap
