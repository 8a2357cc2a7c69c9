#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "endcap/masks.h"

namespace endcap {

// Vector loads may read so many elements beyond the last of a list.
inline constexpr size_t kMaskRoom = 16;

// How the pixels of a mask lie among the prototypes' along one axis: the centre of pixel i lies at
// ((i + 0.5) * scale + pad) * ratio - 0.5 of them, and not outside [low, high].
struct MaskAxis {
  int pixels = 0;      // of the mask
  int prototypes = 0;  // pixels of a prototype
  double scale = 1.0;
  double pad = 0.0;
  double ratio = 1.0;  // prototype pixels to a pixel of the input
  int low = 0;
  int high = 0;
};

struct MaskAxes {
  MaskAxis x;
  MaskAxis y;
};

// Throws as MaskSizeOf.
MaskAxes MaskAxesOf(const MaskPrototypes& prototypes, const MaskPlan& plan);

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
