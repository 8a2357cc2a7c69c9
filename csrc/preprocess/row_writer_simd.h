#pragma once

#include <memory>

#include "preprocess/row_writer.h"

namespace endcap {

// A writer for rows of four channels (R, G, B and one that means nothing) in vector code (Highway).
// T: float, Half, uint8_t or int8_t. Equals TypedRowWriter bit for bit.
template <typename T>
std::unique_ptr<RowWriter> MakeSimdRowWriter(const PreprocessParams& params,
                                             const Placement& placement, const TensorView& tensor);

}  // namespace endcap
