#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/score_order.h"
#include "masks/region.h"
#include "masks/rle.h"

namespace endcap {

// The CPU implementations of the three steps of a mask: logits at prototype resolution, then packed
// bits or runs of the interpolated logits.

// Elements per row of logits: a multiple of the vector width.
inline size_t LogitStride(const MaskRegion& region) {
  return (region.prototype_columns.size() + kMaskPadding - 1) / kMaskPadding * kMaskPadding;
}

// The sums of prototypes times coefficients (float32 [prototypes.count]) at the region's prototype
// pixels, added in the order of the prototypes, then SettledLogit: logits[row][LogitStride].
// Elements beyond the last column are undefined.
void MaskLogitsScalar(const MaskPrototypes& prototypes, const float* coefficients,
                      const MaskRegion& region, float* logits);

// The same values. Returns false if a logit may not be finite.
bool MaskLogitsSimd(const MaskPrototypes& prototypes, const float* coefficients,
                    const MaskRegion& region, float* logits);

// Sets the bits of a mask: `out` [height][row_bytes] holds zeros. See WritePackedMasks.
void PackMaskScalar(const MaskLogits& mask, size_t row_bytes, uint8_t* out);

// Memory of PackMaskSimd: the columns of the mask, extended to whole bytes, in each byte from the
// last column to the first, the order of its bits.
struct PackedColumns {
  std::vector<int32_t> left, right;  // columns of the logits
  std::vector<float> weight;         // of the right one
  std::vector<float> rows;           // two rows of prototype pixels, interpolated along x

  void Trim() { TrimScratch(left, right, weight, rows); }
};

// The same bits.
void PackMaskSimd(const MaskLogits& mask, size_t row_bytes, PackedColumns& columns, uint8_t* out);

// Adds the runs of column x of a mask, `height` pixels high, pixel by pixel.
void AddColumnRuns(const MaskLogits& mask, size_t x, size_t height, RleCounts& counts);

// Adds the runs of every column: the definition.
void AddRunsScalar(const MaskLogits& mask, size_t height, RleCounts& counts);

// Memory of AddRunsSimd.
struct ColumnScratch {
  static constexpr size_t kWordBits = 64;

  std::vector<float> transposed;   // the logits, column after column
  std::vector<float> values;       // a column of the mask, at the rows of the prototypes
  std::vector<uint64_t> positive;  // a bit for each value

  void Trim() { TrimScratch(transposed, values, positive); }
};

// The same runs. Between two rows of the prototypes the values of a column are monotonic, so that a
// run can begin or end only between rows whose signs differ; only those pixels are searched.
void AddRunsSimd(const MaskLogits& mask, size_t height, ColumnScratch& scratch, RleCounts& counts);

// The logits of a class map, [classes][height][width], finite.
struct ClassLogits {
  const float* values;
  size_t classes, height, width;

  const float* row(size_t class_id, int32_t y) const noexcept {
    return values + (class_id * height + static_cast<size_t>(y)) * width;
  }
  // What the first class must be greater than to be chosen, and its id.
  float lowest() const noexcept {
    return classes == 1 ? 0.0F : -std::numeric_limits<float>::infinity();
  }
  size_t first_id() const noexcept { return classes == 1 ? 1 : 0; }
};

// As MapLogitsScalar of class_map.cc.
void MapLogitsSimd(const ClassLogits& logits, const MaskTaps& x, const MaskTaps& y, uint8_t* map);

}  // namespace endcap
