#pragma once

#include <span>
#include <vector>

#include "endcap/preprocess.h"

namespace endcap {

// A region that has pixels, and where its tensor goes.
struct RoiTarget {
  PixelRect rect;
  const PreprocessOutput* output = nullptr;
};

// The good ones of the regions [first, first + statuses.size()) of an image, with their geometries
// written. A bad one gets its status, and the geometry of a failed image.
std::vector<RoiTarget> MakeRoiTargets(const PreprocessParams& params, const RoiImage& image,
                                      size_t first, const ImageHeader& header,
                                      std::span<ItemStatus> statuses);

// Whether the tensors of an image's regions are wanted. Throws kInvalidArgument where only some
// are.
bool WantsTensors(const RoiImage& image);

// The smallest rectangle that holds all of `targets`, of which there is at least one.
PixelRect BoundingRect(const std::vector<RoiTarget>& targets);

// The first bad region's status is the item's, unless the image's own is bad.
void SettleRoiItem(RoiItem& item);

}  // namespace endcap
