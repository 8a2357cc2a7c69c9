#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "masks/rle.h"
#include "masks/window.h"

namespace endcap {

// Adds the runs of column x of a mask, `height` pixels high, pixel by pixel.
void AddColumnRuns(const MaskLogits& mask, size_t x, size_t height, RleCounts& counts);

// Adds the runs of every column: the definition.
void AddRunsScalar(const MaskLogits& mask, size_t height, RleCounts& counts);

// Memory of AddRunsSimd.
struct ColumnScratch {
  std::vector<float> turned;       // the logits, column after column
  std::vector<float> values;       // a column of the mask, at the rows of the prototypes
  std::vector<uint64_t> positive;  // a bit for each value

  void Trim();
};

// The same, run for run. Between two rows of the prototypes a column's values go from one to the
// other without turning back, so that only where their signs differ an end of a run has to be
// looked for, among the pixels between the two.
void AddRunsSimd(const MaskLogits& mask, size_t height, ColumnScratch& scratch, RleCounts& counts);

}  // namespace endcap
