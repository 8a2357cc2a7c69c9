#pragma once

#include <cstddef>

#include "endcap/preprocess.h"

namespace endcap {

// The whole pixels of an oriented image that a region covers, rounded outward (floor, ceil) and
// clipped. Throws kInvalidArgument, naming the region, when a number is not finite or no pixel is
// left. index, count: of the region among those of its image.
PixelRect ClipRoi(const Roi& roi, size_t index, size_t count, int image_w, int image_h);

}  // namespace endcap
