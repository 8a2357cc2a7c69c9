#include "masks/implementations.h"

// The definition: each pixel on its own.

namespace endcap {

void MaskLogitsScalar(const MaskPrototypes& prototypes, const float* coefficients,
                      const MaskRegion& region, float* logits) {
  const size_t stride = LogitStride(region);
  const auto width = static_cast<size_t>(prototypes.width);
  const size_t plane = width * static_cast<size_t>(prototypes.height);
  const auto left = static_cast<size_t>(region.prototype_columns.begin);
  const auto top = static_cast<size_t>(region.prototype_rows.begin);
  for (size_t row = 0; row < region.prototype_rows.size(); ++row) {
    const float* pixels = prototypes.data + (top + row) * width + left;
    for (size_t column = 0; column < region.prototype_columns.size(); ++column) {
      float sum = 0.0F;
      for (size_t m = 0; m < static_cast<size_t>(prototypes.count); ++m) {
        sum += coefficients[m] * pixels[m * plane + column];
      }
      logits[row * stride + column] = SettledLogit(sum);
    }
  }
}

void PackMaskScalar(const MaskLogits& mask, size_t row_bytes, uint8_t* out) {
  const PixelRange& rows = mask.region.rows;
  const PixelRange& columns = mask.region.columns;
  for (auto y = static_cast<size_t>(rows.begin); y < static_cast<size_t>(rows.end); ++y) {
    for (auto x = static_cast<size_t>(columns.begin); x < static_cast<size_t>(columns.end); ++x) {
      if (IsInside(mask, x, y)) {
        out[y * row_bytes + x / 8] |= static_cast<uint8_t>(0x80U >> x % 8);
      }
    }
  }
}

void AddColumnRuns(const MaskLogits& mask, size_t x, size_t height, RleCounts& counts) {
  const PixelRange& rows = mask.region.rows;
  for (auto y = static_cast<size_t>(rows.begin); y < static_cast<size_t>(rows.end); ++y) {
    if (!IsInside(mask, x, y)) continue;
    const auto pixel = static_cast<uint32_t>(x * height + y);
    counts.Add(pixel, pixel + 1);
  }
}

void AddRunsScalar(const MaskLogits& mask, size_t height, RleCounts& counts) {
  const PixelRange& columns = mask.region.columns;
  for (auto x = static_cast<size_t>(columns.begin); x < static_cast<size_t>(columns.end); ++x) {
    AddColumnRuns(mask, x, height, counts);
  }
}

}  // namespace endcap
