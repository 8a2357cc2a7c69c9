#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "common/host_device.h"
#include "endcap/masks.h"

namespace endcap {

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

// A whole number of pixels of the source image, as a geometry holds it: float32 is exact.
ENDCAP_HOST_DEVICE inline bool IsMaskSide(float side) {
  return side >= 1.0F && side <= static_cast<float>(kMaxMaskSide) && side == std::floor(side);
}

// The axis of a mask of the source image, `pixels` long there, from the one of a mask of the
// model's input. Low and high are the prototype pixels whose centres lie in the picture, or the one
// in its middle. scale > 0 and pad: as of Geometry, finite.
ENDCAP_HOST_DEVICE inline MaskAxis SourceAxis(MaskAxis axis, int pixels, float scale, float pad) {
  axis.pixels = pixels;
  axis.scale = static_cast<double>(scale);
  axis.pad = static_cast<double>(pad);
  const double begin = axis.pad * axis.ratio;
  const double end = (axis.pad + axis.pixels * axis.scale) * axis.ratio;
  const double last = axis.prototypes - 1;
  const double low = std::ceil(begin - 0.5);
  const double high = std::ceil(end - 0.5) - 1.0;
  const double middle = std::floor((begin + end) / 2);
  const auto limited = [last](double place) {
    return static_cast<int>(place < 0.0 ? 0.0 : (place > last ? last : place));
  };
  axis.low = limited(low <= high ? low : middle);
  axis.high = limited(low <= high ? high : middle);
  return axis;
}

// The prototype pixels around the centre of a mask's pixel.
struct MaskTap {
  int32_t first;
  int32_t second;  // first + 1; first where it has no weight
  float weight;    // of the second
};

ENDCAP_HOST_DEVICE inline MaskTap TapAt(const MaskAxis& axis, int pixel) {
  const double centre =
      ((static_cast<double>(pixel) + 0.5) * axis.scale + axis.pad) * axis.ratio - 0.5;
  const auto low = static_cast<double>(axis.low);
  const auto high = static_cast<double>(axis.high);
  const double position = centre < low ? low : (centre > high ? high : centre);
  const auto first = static_cast<int32_t>(position);
  const auto weight = static_cast<float>(position - first);
  return {first, first + (weight > 0.0F ? 1 : 0), weight};
}

struct PixelRange {
  int begin = 0;
  int end = 0;

  ENDCAP_HOST_DEVICE bool empty() const noexcept { return begin >= end; }
  ENDCAP_HOST_DEVICE uint32_t size() const noexcept {
    return empty() ? 0 : static_cast<uint32_t>(end - begin);
  }
};

// The pixels i of `pixels` with low <= i < high; none where either is NaN.
ENDCAP_HOST_DEVICE inline PixelRange PixelsBetween(float low, float high, int pixels) {
  if (!(low < high)) return {};
  const auto clamped = [pixels](float side) {
    const float up = std::ceil(side);
    const auto last = static_cast<float>(pixels);
    return static_cast<int>(up < 0.0F ? 0.0F : (up > last ? last : up));
  };
  return {clamped(low), clamped(high)};
}

// From `from` at weight 0 to `to` at weight 1, in float32. Finite between finite values, since each
// product loses at least what the weights' sum may exceed 1 by; between values of different signs
// it never turns back, since each product only falls or only rises.
ENDCAP_HOST_DEVICE inline float Interpolate(float from, float to, float weight) {
  return (1.0F - weight) * from + weight * to;
}

// Whether all values between these two, by Interpolate, are positive as the first is, or none is.
// Very small products with weights may underflow to 0: of those nothing is said.
inline constexpr float kLeastSafe = 4.0F * std::numeric_limits<float>::min();

ENDCAP_HOST_DEVICE inline bool IsOneSided(float from, float to) {
  return (from <= 0.0F && to <= 0.0F) || (from >= kLeastSafe && to >= kLeastSafe);
}

// A sum of prototypes nearer to 0 than this is 0: no network means it, and interpolation between
// others cannot underflow.
inline constexpr float kLeastLogit = 1e-20F;

ENDCAP_HOST_DEVICE inline float SettledLogit(float sum) {
  return sum > -kLeastLogit && sum < kLeastLogit ? 0.0F : sum;
}

}  // namespace endcap
