#include "masks/region.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/fail.h"
#include "common/map_box.h"

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

void CheckSide(const char* name, int side) {
  if (side < 1 || side > kMaxMaskSide) {
    FailArgument(name, " is ", side, ": give 1 to ", kMaxMaskSide);
  }
}

MaskAxis Axis(MaskResolution resolution, int prototypes, int input) {
  MaskAxis axis;
  axis.prototypes = prototypes;
  axis.high = prototypes - 1;
  if (resolution == MaskResolution::kPrototype) {
    axis.pixels = prototypes;
  } else {
    axis.pixels = input;
    axis.ratio = static_cast<double>(prototypes) / input;
  }
  return axis;
}

// name, side: of the source image, as of FailMaskSide.
void PlaceInSource(MaskAxis& axis, const char* name, float side, float scale, float pad) {
  if (!IsMaskSide(side)) FailMaskSide(name, side);
  if (!(scale > 0.0F && std::isfinite(scale)) || !std::isfinite(pad)) {
    FailArgument("geometry has scale ", scale, " and padding ", pad,
                 ": the scale must be greater than 0 and both finite");
  }
  axis = SourceAxis(axis, static_cast<int>(side), scale, pad);
}

}  // namespace

MaskRegion ComputeMaskRegion(const float* box, const MaskPrototypes& prototypes,
                             const MaskPlan& plan, const MaskTaps& x, const MaskTaps& y) {
  const auto scaled = BoxInMask(box, prototypes, plan);
  MaskRegion region;
  region.columns = PixelsBetween(scaled[0], scaled[2], static_cast<int>(x.first.size()));
  region.rows = PixelsBetween(scaled[1], scaled[3], static_cast<int>(y.first.size()));
  if (region.empty()) return region;
  region.prototype_columns = GetTapRange(region.columns, x);
  region.prototype_rows = GetTapRange(region.rows, y);
  return region;
}

void FailMaskSide(const char* name, float side) {
  FailArgument("geometry has ", name, " ", side,
               ": masks of the source need a whole number from 1 to ", kMaxMaskSide);
}

MaskAxes MakeMaskAxes(const MaskPrototypes& prototypes, const MaskPlan& plan) {
  CheckSide("the height of prototypes or logits", prototypes.height);
  CheckSide("the width of prototypes or logits", prototypes.width);
  CheckSide("the input's height", plan.input_height);
  CheckSide("the input's width", plan.input_width);
  MaskAxes axes{Axis(plan.resolution, prototypes.width, plan.input_width),
                Axis(plan.resolution, prototypes.height, plan.input_height)};
  if (plan.resolution == MaskResolution::kSource && plan.geometry != nullptr) {
    const Geometry& geometry = *plan.geometry;
    PlaceInSource(axes.x, "image_w", geometry.image_w, geometry.scale_x, geometry.pad_x);
    PlaceInSource(axes.y, "image_h", geometry.image_h, geometry.scale_y, geometry.pad_y);
  }
  return axes;
}

MaskSize ComputeMaskSize(const MaskPrototypes& prototypes, const MaskPlan& plan) {
  const MaskAxes axes = MakeMaskAxes(prototypes, plan);
  return {axes.y.pixels, axes.x.pixels};
}

void MaskTaps::Make(const MaskAxis& axis) {
  const auto pixels = static_cast<size_t>(axis.pixels);
  first.resize(pixels);
  second.resize(pixels);
  weight.assign(pixels + kMaskPadding, 0.0F);
  begin.resize(static_cast<size_t>(axis.prototypes) + 1);
  size_t reached = 0;  // begin[0, reached) are set
  for (size_t i = 0; i < pixels; ++i) {
    const MaskTap tap = TapAt(axis, static_cast<int>(i));
    first[i] = tap.first;
    second[i] = tap.second;
    weight[i] = tap.weight;
    for (; reached <= static_cast<size_t>(first[i]); ++reached) {
      begin[reached] = static_cast<int32_t>(i);
    }
  }
  std::fill(begin.begin() + static_cast<std::ptrdiff_t>(reached), begin.end(), axis.pixels);
}

}  // namespace endcap
