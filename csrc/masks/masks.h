#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "common/host_device.h"
#include "endcap/masks.h"

namespace endcap {

// Instance masks: the arithmetic that CPU and CUDA share, and the checks and error messages of
// both.

// How a mask's pixels are sampled from the prototypes along one axis: the centre of pixel i has the
// prototype coordinate ((i + 0.5) * scale + pad) * ratio - 0.5, clamped to [low, high].
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

// Whether a side of the source image, as a geometry holds it, is a whole number from 1 to
// kMaxMaskSide.
ENDCAP_HOST_DEVICE inline bool IsMaskSide(float side) {
  return side >= 1.0F && side <= static_cast<float>(kMaxMaskSide) && side == std::floor(side);
}

// Returns the axis of a mask of the source image, which has `pixels` pixels there, from the axis of
// a mask of the model's input. Low and high are the first and the last prototype pixel whose
// centres lie in the image, or both the one at its middle. scale > 0 and pad: as in Geometry,
// finite.
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

// Linear interpolation in float32: `from` at weight 0, `to` at weight 1. Finite between finite
// values, because each product rounds down by at least what the weights' sum may exceed 1 by;
// monotonic in the weight between values of different signs, because each product is.
ENDCAP_HOST_DEVICE inline float Interpolate(float from, float to, float weight) {
  return (1.0F - weight) * from + weight * to;
}

// Whether all values that Interpolate gives between these two are positive, or none is. False for
// very small values, whose products with weights may underflow to 0.
inline constexpr float kMinSafe = 4.0F * std::numeric_limits<float>::min();

ENDCAP_HOST_DEVICE inline bool IsOneSided(float from, float to) {
  return (from <= 0.0F && to <= 0.0F) || (from >= kMinSafe && to >= kMinSafe);
}

// A sum of prototypes closer to 0 than this counts as 0, so that interpolation between others
// cannot underflow. No network gives such a value a meaning.
inline constexpr float kMinLogit = 1e-20F;

ENDCAP_HOST_DEVICE inline float SettledLogit(float sum) {
  return sum > -kMinLogit && sum < kMinLogit ? 0.0F : sum;
}

// A number of COCO's compressed run-length encoding (RLE): groups of 5 bits, the lowest first, one
// character each.
inline constexpr int kRleGroupBits = 5;
inline constexpr int64_t kRleGroup = 31;
inline constexpr int64_t kRleSign = 16;  // of the last group
inline constexpr int kRleMore = 32;      // another group follows
inline constexpr int kRleZero = 48;      // '0' is a group of 0
inline constexpr int kRleMaxGroups = 7;  // differences of 32-bit numbers

// Calls put(char) for each group of the number.
template <typename Put>
ENDCAP_HOST_DEVICE void WriteRleNumber(int64_t number, Put put) {
  bool more = true;
  while (more) {
    const int64_t group = number & kRleGroup;
    number >>= kRleGroupBits;
    more = (group & kRleSign) != 0 ? number != -1 : number != 0;
    put(static_cast<char>(group + (more ? kRleMore : 0) + kRleZero));
  }
}

// Returns the axes of every mask of an image. Throws as ComputeMaskSize.
MaskAxes MakeMaskAxes(const MaskPrototypes& prototypes, const MaskPlan& plan);

// Throws kInvalidArgument for a side of the source image that is not IsMaskSide. name: image_w or
// image_h.
[[noreturn]] void FailMaskSide(const char* name, float side);

// The factor from coordinates of the model's input to those of the prototypes.
inline float BoxRatio(int prototypes, int input) {
  return static_cast<float>(static_cast<double>(prototypes) / static_cast<double>(input));
}

// Throws kInvalidArgument for a logit that is not finite. detection: see DetectionName; row and
// column: of the prototypes.
[[noreturn]] void FailLogit(const std::string& detection, size_t row, size_t column, float value);

// "detection 3 (candidate 17)", for error messages.
std::string DetectionName(size_t number, int32_t candidate);

// Throws kImageLimit if the RLE strings of an image's first `masks` masks take more than
// kMaxRleBytes.
void CheckRleBytes(size_t bytes, size_t masks, int width, int height);

}  // namespace endcap
