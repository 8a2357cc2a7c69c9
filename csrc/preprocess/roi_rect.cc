#include "preprocess/roi_rect.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/fail.h"

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

}  // namespace

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

}  // namespace endcap
