#pragma once

#include <cstdint>
#include <memory>

#include "endcap/preprocess.h"
#include "preprocess/placement.h"

namespace endcap {

// Turns finished rows into tensor elements: channel order, normalisation, dtype and layout, and the
// padding around the image.
class RowWriter {
 public:
  virtual ~RowWriter() = default;
  // Row `y` of the visible window, interleaved, visible_w pixels of `row_channels` numbers each.
  virtual void WriteRow(int y, const uint8_t* row) = 0;
  virtual void WriteRow(int y, const float* row) = 0;
  // Fills everything outside the visible window with the normalised pad_value.
  virtual void WritePadding() = 0;
};

// row_channels: 1 (gray), 3 (R, G, B) or 4 (R, G, B and one that means nothing: written by vector
// code). `tensor` and `placement` must outlive the writer.
std::unique_ptr<RowWriter> MakeRowWriter(const PreprocessParams& params, const Placement& placement,
                                         const TensorView& tensor, int row_channels);

}  // namespace endcap
