#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace endcap {

// Full-range BT.601, as JFIF has it (T.871), for one pixel, once for host and device: R = Y + 1.402
// Cr, G = Y - 0.34414 Cb - 0.71414 Cr, B = Y + 1.772 Cb. Factors of 16 fractional bits and their
// roundings are those of libjpeg(-turbo)'s jdcolor.c.

inline constexpr int32_t kYccRedCr = 91881;
inline constexpr int32_t kYccGreenCb = -22554;
inline constexpr int32_t kYccGreenCr = -46802;
inline constexpr int32_t kYccBlueCb = 116130;
inline constexpr int32_t kYccHalf = 1 << 15;

struct Rgb8 {
  uint8_t r, g, b;
};

ENDCAP_HOST_DEVICE constexpr uint8_t ClampToByte(int32_t value) {
  return static_cast<uint8_t>(value < 0 ? 0 : (value > 255 ? 255 : value));
}

ENDCAP_HOST_DEVICE constexpr Rgb8 YccPixelToRgb(int32_t y, int32_t cb, int32_t cr) {
  cb -= 128;
  cr -= 128;
  return {ClampToByte(y + ((kYccRedCr * cr + kYccHalf) >> 16)),
          ClampToByte(y + ((kYccGreenCb * cb + kYccGreenCr * cr + kYccHalf) >> 16)),
          ClampToByte(y + ((kYccBlueCb * cb + kYccHalf) >> 16))};
}

}  // namespace endcap
