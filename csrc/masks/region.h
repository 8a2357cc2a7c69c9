#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/score_order.h"
#include "endcap/masks.h"
#include "masks/masks.h"

namespace endcap {

// Vector loads may read this many elements beyond the last of a list.
inline constexpr size_t kMaskPadding = 16;

// For each pixel of a mask along one axis, the prototype pixels around its centre. `first` is
// non-decreasing, and `weight` is non-decreasing among pixels with equal `first`.
struct MaskTaps {
  std::vector<int32_t> first;
  std::vector<int32_t> second;  // first + 1; first where it has no weight
  std::vector<float> weight;    // of the second; kMaskPadding zeros follow
  std::vector<int32_t> begin;   // [prototypes + 1]: the first pixel with `first` >= the index

  void Make(const MaskAxis& axis);
  void Trim() { TrimScratch(first, second, weight, begin); }
};

// The pixels of a mask that lie in its box, and the prototype pixels around their centres.
struct MaskRegion {
  PixelRange columns, rows;
  PixelRange prototype_columns, prototype_rows;

  bool empty() const noexcept { return columns.empty() || rows.empty(); }
};

// Returns the region of a box, given as xyxy in pixels of the model's input; any values.
MaskRegion ComputeMaskRegion(const float* box, const MaskPrototypes& prototypes,
                             const MaskPlan& plan, const MaskTaps& x, const MaskTaps& y);

// The logits of one mask, and how its pixels are interpolated from them.
struct MaskLogits {
  const MaskTaps& x;
  const MaskTaps& y;
  MaskRegion region;
  const float* values;  // of region.prototype_rows; the first is of region.prototype_columns.begin
  size_t stride;        // elements from row to row
};

// Whether a pixel of the region, given by its position in the mask, belongs to the mask.
inline bool IsInside(const MaskLogits& mask, size_t x, size_t y) {
  const auto column = [&](int32_t prototype) {
    return static_cast<size_t>(prototype - mask.region.prototype_columns.begin);
  };
  const auto row = [&](int32_t prototype) {
    return mask.values +
           static_cast<size_t>(prototype - mask.region.prototype_rows.begin) * mask.stride;
  };
  const size_t left = column(mask.x.first[x]);
  const size_t right = column(mask.x.second[x]);
  const float* upper = row(mask.y.first[y]);
  const float* lower = row(mask.y.second[y]);
  const float weight = mask.x.weight[x];
  return Interpolate(Interpolate(upper[left], upper[right], weight),
                     Interpolate(lower[left], lower[right], weight), mask.y.weight[y]) > 0.0F;
}

}  // namespace endcap
