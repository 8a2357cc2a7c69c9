#pragma once

#include "endcap/preprocess.h"

namespace endcap {

// Throws kInvalidArgument when `view`, the tensor of item `item`, does not have the shape and dtype
// that PreprocessOutputs says. Where it lies is not looked at.
void CheckOutputShape(const PreprocessParams& params, const TensorView& view, size_t item);

// The same, and kUnsupported for memory of a GPU.
void CheckHostOutput(const PreprocessParams& params, const TensorView& view, size_t item);

// What a failed image leaves behind in host memory.
void WriteBlank(const PreprocessOutput& output);

// Writes a status where the caller wants one.
void WriteStatus(const PreprocessOutput& output, const ItemStatus& status);

// Writes a geometry where the caller wants one.
void WriteGeometry(const PreprocessOutput& output, const Geometry& geometry);

// That of a failed image.
Geometry BlankGeometry(const PreprocessOutput& output);

}  // namespace endcap
