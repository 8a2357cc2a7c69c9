#include "masks/logits.h"

#include <cmath>

#include "common/fail.h"

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
      logits[row * stride + column] = SettledLogit(sum);
    }
  }
}

void FailLogit(const std::string& detection, size_t row, size_t column, float value) {
  FailArgument("the mask logit of ", detection, " at row ", row, ", column ", column,
               " of the prototypes is ", std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf"),
               ": it must be finite");
}

std::string DetectionName(size_t number, int32_t candidate) {
  return "detection " + std::to_string(number) + " (candidate " + std::to_string(candidate) + ")";
}

}  // namespace endcap
