#include "masks/logits.h"

#include <cmath>

namespace endcap {

void MaskLogitsScalar(const MaskPrototypes& prototypes, const float* coefficients,
                      const MaskWindow& window, float* logits) {
  const size_t stride = LogitStride(window);
  const auto width = static_cast<size_t>(prototypes.width);
  const size_t plane = width * static_cast<size_t>(prototypes.height);
  const auto left = static_cast<size_t>(window.prototype_columns.begin);
  const auto top = static_cast<size_t>(window.prototype_rows.begin);
  for (size_t row = 0; row < window.prototype_rows.size(); ++row) {
    const float* pixels = prototypes.data + (top + row) * width + left;
    for (size_t column = 0; column < window.prototype_columns.size(); ++column) {
      float sum = 0.0F;
      for (size_t m = 0; m < static_cast<size_t>(prototypes.count); ++m) {
        sum += coefficients[m] * pixels[m * plane + column];
      }
      logits[row * stride + column] = std::abs(sum) < kLeastLogit ? 0.0F : sum;
    }
  }
}

}  // namespace endcap
