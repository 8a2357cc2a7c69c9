#pragma once

#include <cstddef>

#include "endcap/masks.h"
#include "masks/window.h"

namespace endcap {

// Elements of a row of logits: vectors reach beyond the last column.
inline size_t LogitStride(const MaskWindow& window) {
  return (window.prototype_columns.size() + kMaskRoom - 1) / kMaskRoom * kMaskRoom;
}

// The sums of prototypes times coefficients (float32 [prototypes.count]) at the window's prototype
// pixels, added in the order of the prototypes: logits[row][LogitStride]. What is written beyond
// the last column means nothing. A sum nearer to 0 than kLeastLogit is 0: no network means it, and
// interpolation between others cannot underflow.
inline constexpr float kLeastLogit = 1e-20F;
void MaskLogitsScalar(const MaskPrototypes& prototypes, const float* coefficients,
                      const MaskWindow& window, float* logits);

// The same, bit for bit. Returns false where a logit may not be finite.
bool MaskLogitsSimd(const MaskPrototypes& prototypes, const float* coefficients,
                    const MaskWindow& window, float* logits);

}  // namespace endcap
