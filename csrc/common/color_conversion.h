#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "endcap/image_view.h"

namespace endcap {

// Conversion of single pixels between color spaces, one definition for host and device.

struct Rgb8 {
  uint8_t r, g, b;
};

ENDCAP_HOST_DEVICE constexpr uint8_t ClampToByte(int32_t value) {
  return static_cast<uint8_t>(value < 0 ? 0 : (value > 255 ? 255 : value));
}

// Y'CbCr of 8 bits to R'G'B' in integers:
//
//   R = (luma (Y - offset) + red_cr (Cr - 128) + 1/2) / 2^16, and so on, clamped to 0 to 255.
//
// Factors follow from the weights Kr and Kb of red and blue in luma: ITU-R BT.601-7 2.5.1 (0.299,
// 0.114), BT.709-6 3.2 (0.2126, 0.0722), BT.2020-2 table 4 (0.2627, 0.0593; non-constant
// luminance). Limited range has 219 steps of luma from 16 on and 224 of chroma around 128, full
// range 255 of both: ITU-T H.273 8.3. The factors of full-range BT.601 (JFIF, ITU-T T.871) are
// those of libjpeg(-turbo)'s jdcolor.c.
struct YuvCoefficients {
  int32_t offset = 0;  // of luma
  int32_t luma = 0;    // the factors: 16 fractional bits
  int32_t red_cr = 0;
  int32_t green_cb = 0;
  int32_t green_cr = 0;
  int32_t blue_cb = 0;
};

constexpr int32_t YuvFixed16(double factor) {
  return static_cast<int32_t>(factor * 65536 + (factor < 0 ? -0.5 : 0.5));
}

constexpr YuvCoefficients MakeYuvCoefficients(YuvMatrix matrix, YuvRange range) {
  constexpr int32_t kOne = 1 << 16;
  if (matrix == YuvMatrix::kBt601 && range == YuvRange::kFull) {
    return {0, kOne, 91881, -22554, -46802, 116130};
  }
  const bool is_709 = matrix == YuvMatrix::kBt709;
  const double kr = matrix == YuvMatrix::kBt601 ? 0.299 : (is_709 ? 0.2126 : 0.2627);
  const double kb = matrix == YuvMatrix::kBt601 ? 0.114 : (is_709 ? 0.0722 : 0.0593);
  const double kg = 1 - kr - kb;
  const bool full = range == YuvRange::kFull;
  const double chroma = full ? 1.0 : 255.0 / 224;
  return {full ? 0 : 16,
          full ? kOne : YuvFixed16(255.0 / 219),
          YuvFixed16(2 * (1 - kr) * chroma),
          YuvFixed16(-2 * (1 - kb) * kb / kg * chroma),
          YuvFixed16(-2 * (1 - kr) * kr / kg * chroma),
          YuvFixed16(2 * (1 - kb) * chroma)};
}

ENDCAP_HOST_DEVICE constexpr Rgb8 YuvPixelToRgb(const YuvCoefficients& c, int32_t y, int32_t cb,
                                                int32_t cr) {
  const int32_t luma = c.luma * (y - c.offset) + (1 << 15);
  cb -= 128;
  cr -= 128;
  return {ClampToByte((luma + c.red_cr * cr) >> 16),
          ClampToByte((luma + c.green_cb * cb + c.green_cr * cr) >> 16),
          ClampToByte((luma + c.blue_cb * cb) >> 16)};
}

// The gray pixel: luma alone, at full range.
ENDCAP_HOST_DEVICE constexpr uint8_t YuvPixelToGray(const YuvCoefficients& c, int32_t y) {
  return ClampToByte((c.luma * (y - c.offset) + (1 << 15)) >> 16);
}

// One channel of CMYK to RGB without a color profile, as Pillow's convert("RGB"): ink and black are
// inverted coverages (255: no ink); the result is ink * black / 255, rounded.
ENDCAP_HOST_DEVICE inline uint8_t InvertedCmykChannel(uint8_t ink, uint8_t black) {
  const uint32_t product = static_cast<uint32_t>(ink) * black;
  return static_cast<uint8_t>((2U * product + 255U) / 510U);
}

// ITU-R BT.601 luma in 16-bit fixed point, the weights of libjpeg-turbo and Pillow.
ENDCAP_HOST_DEVICE inline uint8_t Luma(uint8_t red, uint8_t green, uint8_t blue) {
  return static_cast<uint8_t>((red * 19595U + green * 38470U + blue * 7471U + 32768U) >> 16);
}

}  // namespace endcap
