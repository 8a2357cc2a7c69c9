#pragma once

#include <span>
#include <vector>

#include "endcap/preprocess.h"

namespace endcap {

// Throws kInvalidArgument when `view`, the tensor of output `index`, does not have the shape and
// dtype that PreprocessOutputs says, or is not memory of a GPU `device`; kUnsupported for memory of
// a GPU when `device` is the CPU.
void CheckOutput(const PreprocessParams& params, const TensorView& view, DeviceId device,
                 size_t index);

// Whether the tensors of an input's outputs are wanted. Throws kInvalidArgument where only some
// are.
bool WantsTensors(const PreprocessInput& input);

// Writes the results of a failed image in host memory.
void WriteBlank(const PreprocessOutput& output);

// Writes a status where the output has memory for it.
void WriteStatus(const PreprocessOutput& output, const ItemStatus& status);

// The same for all outputs of an input: the item's status, or those of its regions.
void WriteStatuses(const PreprocessInput& input, const PreprocessItem& item);

// Writes a geometry where the output has memory for it.
void WriteGeometry(const PreprocessOutput& output, const Geometry& geometry);

// The same of a failed image.
void WriteBlankGeometry(const PreprocessOutput& output);

// A region that has pixels, and where its tensor goes.
struct RoiTarget {
  PixelRect rect;
  const PreprocessOutput* output = nullptr;
};

// The good ones of the regions [first, first + statuses.size()) of an image, with their geometries
// written. A bad one gets its status, and the geometry of a failed image.
std::vector<RoiTarget> MakeRoiTargets(const PreprocessParams& params, const PreprocessInput& input,
                                      size_t first, const ImageHeader& header,
                                      std::span<ItemStatus> statuses);

// The smallest rectangle that holds all of `targets`, of which there is at least one.
PixelRect BoundingRect(const std::vector<RoiTarget>& targets);

}  // namespace endcap
