#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "endcap/masks.h"
#include "masks/window.h"

namespace endcap {

// Elements of a row of logits: vectors reach beyond the last column.
inline size_t LogitStride(const MaskWindow& window) {
  return (window.prototype_columns.size() + kMaskRoom - 1) / kMaskRoom * kMaskRoom;
}

// The sums of prototypes times coefficients (float32 [prototypes.count]) at the window's prototype
// pixels, added in the order of the prototypes: logits[row][LogitStride]. What is written beyond
// the last column means nothing. See SettledLogit.
void MaskLogitsScalar(const MaskPrototypes& prototypes, const float* coefficients,
                      const MaskWindow& window, float* logits);

// Throws what a logit that is not finite comes to. detection: "detection 3", see DetectionName; row
// and column: of the prototypes.
[[noreturn]] void FailLogit(const std::string& detection, size_t row, size_t column, float value);

// "detection 3 (candidate 17)".
std::string DetectionName(size_t number, int32_t candidate);

// The same, bit for bit. Returns false where a logit may not be finite.
bool MaskLogitsSimd(const MaskPrototypes& prototypes, const float* coefficients,
                    const MaskWindow& window, float* logits);

}  // namespace endcap
