#include "masks/window.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "postprocess/map_box.h"

namespace endcap {
namespace {

// The pixels i of `pixels` with low <= i < high; none where either is NaN.
PixelRange PixelsBetween(float low, float high, size_t pixels) {
  if (!(low < high)) return {};
  const auto last = static_cast<float>(pixels);
  return {static_cast<int>(std::clamp(std::ceil(low), 0.0F, last)),
          static_cast<int>(std::clamp(std::ceil(high), 0.0F, last))};
}

PixelRange TapsOf(const PixelRange& pixels, const MaskTaps& taps) {
  return {taps.first[static_cast<size_t>(pixels.begin)],
          taps.second[static_cast<size_t>(pixels.end) - 1] + 1};
}

float Ratio(int to, int from) {
  return static_cast<float>(static_cast<double>(to) / static_cast<double>(from));
}

std::array<float, 4> BoxInMask(const float* box, const MaskPrototypes& prototypes,
                               const MaskPlan& plan) {
  std::array<float, 4> scaled{box[0], box[1], box[2], box[3]};
  if (plan.resolution == MaskResolution::kPrototype) {
    const float x = Ratio(prototypes.width, plan.input_width);
    const float y = Ratio(prototypes.height, plan.input_height);
    scaled = {box[0] * x, box[1] * y, box[2] * x, box[3] * y};
  } else if (plan.resolution == MaskResolution::kSource && plan.geometry != nullptr) {
    MapBox(*plan.geometry, box, scaled.data());
  }
  return scaled;
}

}  // namespace

MaskWindow MaskWindowOf(const float* box, const MaskPrototypes& prototypes, const MaskPlan& plan,
                        const MaskTaps& x, const MaskTaps& y) {
  const auto scaled = BoxInMask(box, prototypes, plan);
  MaskWindow window;
  window.columns = PixelsBetween(scaled[0], scaled[2], x.first.size());
  window.rows = PixelsBetween(scaled[1], scaled[3], y.first.size());
  if (window.empty()) return window;
  window.prototype_columns = TapsOf(window.columns, x);
  window.prototype_rows = TapsOf(window.rows, y);
  return window;
}

}  // namespace endcap
