#include "masks/window.h"

#include <array>

#include "postprocess/map_box.h"

namespace endcap {
namespace {

PixelRange GetTapRange(const PixelRange& pixels, const MaskTaps& taps) {
  return {taps.first[static_cast<size_t>(pixels.begin)],
          taps.second[static_cast<size_t>(pixels.end) - 1] + 1};
}

std::array<float, 4> BoxInMask(const float* box, const MaskPrototypes& prototypes,
                               const MaskPlan& plan) {
  std::array<float, 4> scaled{box[0], box[1], box[2], box[3]};
  if (plan.resolution == MaskResolution::kPrototype) {
    const float x = BoxRatio(prototypes.width, plan.input_width);
    const float y = BoxRatio(prototypes.height, plan.input_height);
    scaled = {box[0] * x, box[1] * y, box[2] * x, box[3] * y};
  } else if (plan.resolution == MaskResolution::kSource && plan.geometry != nullptr) {
    MapBox(*plan.geometry, box, scaled.data());
  }
  return scaled;
}

}  // namespace

MaskWindow ComputeMaskRegion(const float* box, const MaskPrototypes& prototypes,
                             const MaskPlan& plan, const MaskTaps& x, const MaskTaps& y) {
  const auto scaled = BoxInMask(box, prototypes, plan);
  MaskWindow window;
  window.columns = PixelsBetween(scaled[0], scaled[2], static_cast<int>(x.first.size()));
  window.rows = PixelsBetween(scaled[1], scaled[3], static_cast<int>(y.first.size()));
  if (window.empty()) return window;
  window.prototype_columns = GetTapRange(window.columns, x);
  window.prototype_rows = GetTapRange(window.rows, y);
  return window;
}

}  // namespace endcap
