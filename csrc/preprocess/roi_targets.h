#pragma once

#include <span>
#include <vector>

#include "endcap/preprocess.h"

namespace endcap {

// The whole pixels of an oriented image that a region covers, rounded outward (floor, ceil) and
// clipped. Throws kInvalidArgument, naming the region, when a number is not finite or no pixel is
// left. index, count: of the region among those of its image.
PixelRect ClipRoi(const Roi& roi, size_t index, size_t count, int image_w, int image_h);

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
