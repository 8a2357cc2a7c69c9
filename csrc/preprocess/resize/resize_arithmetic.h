#pragma once

#include <cmath>
#include <cstdint>

#include "common/host_device.h"

namespace endcap {

// What is done per sample, once for host and device.

// OpenCV's 8-bit INTER_LINEAR: 11-bit weights; the vertical pass drops 4 bits before and 16 after
// each product. Source: OpenCV 4, imgproc resize, 8-bit linear.
inline constexpr int32_t kOpencvOne = 1 << 11;

ENDCAP_HOST_DEVICE inline int32_t OpencvHorizontal(uint8_t a, uint8_t b, int32_t weight_a,
                                                   int32_t weight_b) {
  return a * weight_a + b * weight_b;
}

// What one row adds to the vertical sum, and the rounded sum of both rows.
ENDCAP_HOST_DEVICE inline int32_t OpencvVerticalTerm(int32_t horizontal, int32_t weight) {
  return (weight * (horizontal >> 4)) >> 16;
}
ENDCAP_HOST_DEVICE inline int32_t OpencvVerticalRound(int32_t sum) { return (sum + 2) >> 2; }

ENDCAP_HOST_DEVICE inline uint8_t OpencvVertical(int32_t a, int32_t b, int32_t weight_a,
                                                 int32_t weight_b) {
  return static_cast<uint8_t>(
      OpencvVerticalRound(OpencvVerticalTerm(a, weight_a) + OpencvVerticalTerm(b, weight_b)));
}

// OpenCV's 8-bit INTER_CUBIC and INTER_AREA: float32 sums, rounded once, half to even. Source:
// experiment with OpenCV 4.10 on x86-64, whose cubic weights are float32 there.
ENDCAP_HOST_DEVICE inline uint8_t OpencvRound(float sum) {
  const float value = nearbyintf(sum);
  return static_cast<uint8_t>(value < 0.0F ? 0.0F : (value > 255.0F ? 255.0F : value));
}

// Pillow's 8-bit resize: 22-bit weights, rounded to 8 bits after each pass. Source: Pillow's
// resample, 8 bits per channel.
inline constexpr int32_t kPillowBits = 22;
inline constexpr int32_t kPillowOne = 1 << kPillowBits;
inline constexpr int32_t kPillowHalf = 1 << (kPillowBits - 1);

ENDCAP_HOST_DEVICE inline uint8_t PillowRound(int32_t sum) {
  const int32_t value = sum >> kPillowBits;
  return static_cast<uint8_t>(value < 0 ? 0 : (value > 255 ? 255 : value));
}

}  // namespace endcap
