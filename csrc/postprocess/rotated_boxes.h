#pragma once

#include <span>

#include "endcap/geometry.h"
#include "endcap/postprocess.h"

namespace endcap {

// Writes the boxes `kept` of boxes_xywhr [N][5]: their corners before they are turned, and their
// angles, in pixels of the source image as of RotatedToSource (geometry null: as they are), as of
// PostprocessOutputs.
void WriteRotatedBoxes(std::span<const float> boxes_xywhr, std::span<const int64_t> kept,
                       const Geometry* geometry, const PostprocessOutput& output);

}  // namespace endcap
