
#include <algorithm>
#include <cmath>
#include <string>

#include "common/fail.h"
#include "preprocess/placement.h"
#include "preprocess/preprocess_output.h"

namespace endcap {
namespace {

[[noreturn]] void Refuse(const Roi& roi, size_t index, size_t count, const std::string& why) {
  FailArgument("roi index ", index, " of ", count, " is [", roi.x1, ", ", roi.y1, ", ", roi.x2,
               ", ", roi.y2, "]: ", why);
}

// Clipped before they become whole numbers, so that any float will do.
int FloorInside(float edge, int size) {
  return static_cast<int>(std::floor(std::clamp(edge, 0.0F, static_cast<float>(size))));
}
int CeilInside(float edge, int size) {
  return static_cast<int>(std::ceil(std::clamp(edge, 0.0F, static_cast<float>(size))));
}

// The whole pixels of an oriented image that a region covers, rounded outward (floor, ceil) and
// clipped. Throws kInvalidArgument, naming the region, when a number is not finite or no pixel is
// left. index, count: of the region among those of its image.
PixelRect ClipRoi(const Roi& roi, size_t index, size_t count, int image_w, int image_h) {
  for (const float edge : {roi.x1, roi.y1, roi.x2, roi.y2}) {
    if (!std::isfinite(edge)) Refuse(roi, index, count, "give four finite numbers");
  }
  if (roi.x1 >= roi.x2 || roi.y1 >= roi.y2) {
    Refuse(roi, index, count, "it is empty, give x1 < x2 and y1 < y2");
  }
  const int x = FloorInside(roi.x1, image_w);
  const int y = FloorInside(roi.y1, image_h);
  const PixelRect rect{x, y, CeilInside(roi.x2, image_w) - x, CeilInside(roi.y2, image_h) - y};
  if (rect.width < 1 || rect.height < 1) {
    Refuse(roi, index, count,
           "no pixel of it is inside the image, which is " + std::to_string(image_w) + "x" +
               std::to_string(image_h));
  }
  return rect;
}

}  // namespace

std::vector<RoiTarget> MakeRoiTargets(const PreprocessParams& params, const PreprocessInput& input,
                                      size_t first, const ImageHeader& header,
                                      std::span<ItemStatus> statuses) {
  const int image_w = header.oriented_width();
  const int image_h = header.oriented_height();
  const std::span<const Roi> rois = input.rois.value_or(std::span<const Roi>{});
  std::vector<RoiTarget> targets;
  for (size_t i = 0; i < statuses.size(); ++i) {
    const size_t index = first + i;
    const PreprocessOutput& output = input.outputs[index];
    try {
      const PixelRect rect = ClipRoi(rois[index], index, rois.size(), image_w, image_h);
      WriteGeometry(output, MakeGeometry(Place(params, rect.width, rect.height), rect, header,
                                         output.source_index));
      targets.push_back({rect, &output});
    } catch (const Error&) {
      statuses[i] = MakeStatusFromCurrentException();
      WriteBlankGeometry(output);
    }
  }
  return targets;
}

PixelRect BoundingRect(const std::vector<RoiTarget>& targets) {
  PixelRect all = targets.front().rect;
  for (const RoiTarget& target : targets) {
    const PixelRect& rect = target.rect;
    const int right = std::max(all.right(), rect.right());
    const int bottom = std::max(all.bottom(), rect.bottom());
    all.x = std::min(all.x, rect.x);
    all.y = std::min(all.y, rect.y);
    all.width = right - all.x;
    all.height = bottom - all.y;
  }
  return all;
}

}  // namespace endcap
