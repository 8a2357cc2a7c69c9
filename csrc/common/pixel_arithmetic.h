#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace endcap {

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
