#include "masks/runs.h"

#include "common/score_order.h"
#include "masks/sample.h"

namespace endcap {

void AddColumnRuns(const MaskLogits& mask, size_t x, size_t height, RleCounts& counts) {
  const PixelRange& rows = mask.window.rows;
  for (auto y = static_cast<size_t>(rows.begin); y < static_cast<size_t>(rows.end); ++y) {
    if (!IsInside(mask, x, y)) continue;
    const auto pixel = static_cast<uint32_t>(x * height + y);
    counts.Add(pixel, pixel + 1);
  }
}

void AddRunsScalar(const MaskLogits& mask, size_t height, RleCounts& counts) {
  const PixelRange& columns = mask.window.columns;
  for (auto x = static_cast<size_t>(columns.begin); x < static_cast<size_t>(columns.end); ++x) {
    AddColumnRuns(mask, x, height, counts);
  }
}

void ColumnScratch::Trim() {
  TrimScratch(turned);
  TrimScratch(values);
  TrimScratch(positive);
}

}  // namespace endcap
