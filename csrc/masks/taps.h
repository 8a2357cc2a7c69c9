#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "endcap/masks.h"
#include "masks/mask_rule.h"

namespace endcap {

// Vector loads may read so many elements beyond the last of a list.
inline constexpr size_t kMaskRoom = 16;

// Throws as ComputeMaskSize.
MaskAxes MakeMaskAxes(const MaskPrototypes& prototypes, const MaskPlan& plan);

// Throws what a side of the source image that is not IsMaskSide comes to. name: image_w or image_h.
[[noreturn]] void FailMaskSide(const char* name, float side);

// For each pixel of a mask along one axis the prototype pixels around its centre. Neither `first`
// nor, between equal ones, `weight` ever falls from one pixel to the next.
struct MaskTaps {
  std::vector<int32_t> first;
  std::vector<int32_t> second;  // first + 1; first where it has no weight
  std::vector<float> weight;    // of the second; kMaskRoom zeros follow
  std::vector<int32_t> begin;   // [prototypes + 1]: the first pixel whose `first` is so great

  void Make(const MaskAxis& axis);
  void Trim();
};

}  // namespace endcap
