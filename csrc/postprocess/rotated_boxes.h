#pragma once

#include <span>

#include "endcap/geometry.h"
#include "endcap/postprocess.h"

namespace endcap {

// Writes the boxes `kept` of boxes_xywhr [N][5]: their corners before they are turned, and their
// angles, in pixels of the source image (geometry null: as they are), as of PostprocessOutputs.
//
// Scales that differ in x and y make a parallelogram of a rectangle. Its sides keep their lengths
// and the first its direction; what comes out is the rectangle with these, which is the same for
// equal scales.
void WriteRotatedBoxes(std::span<const float> boxes_xywhr, std::span<const int64_t> kept,
                       const Geometry* geometry, const PostprocessOutput& output);

}  // namespace endcap
