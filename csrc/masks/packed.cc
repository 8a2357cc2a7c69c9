#include "masks/packed.h"

#include "common/score_order.h"
#include "masks/sample.h"

namespace endcap {

void PackMaskScalar(const MaskLogits& mask, size_t row_bytes, uint8_t* out) {
  const PixelRange& rows = mask.window.rows;
  const PixelRange& columns = mask.window.columns;
  for (auto y = static_cast<size_t>(rows.begin); y < static_cast<size_t>(rows.end); ++y) {
    for (auto x = static_cast<size_t>(columns.begin); x < static_cast<size_t>(columns.end); ++x) {
      if (IsInside(mask, x, y)) {
        out[y * row_bytes + x / 8] |= static_cast<uint8_t>(0x80U >> x % 8);
      }
    }
  }
}

void PackedColumns::Trim() {
  TrimScratch(left);
  TrimScratch(right);
  TrimScratch(weight);
  TrimScratch(rows);
}

}  // namespace endcap
