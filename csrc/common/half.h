#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "common/host_device.h"
#include "endcap/implementation.h"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#endif

namespace endcap {

// IEEE 754 binary32 -> binary16, round half to even; overflow gives infinity, NaN stays NaN.
ENDCAP_HOST_DEVICE inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);  // >= 65520
  uint32_t mantissa = magnitude & 0x007FFFFFU;
  uint32_t shift = 13;
  uint32_t result = 0;
  if (magnitude >= 0x38800000U) {  // normal in binary16: 2^-14 and above
    result = (magnitude - 0x38000000U) >> 13;
  } else {
    const uint32_t exponent = magnitude >> 23;
    if (exponent < 102) return sign;  // below half of the smallest subnormal
    mantissa |= 0x00800000U;
    shift = 126 - exponent;
    result = mantissa >> shift;
  }
  const uint32_t rest = mantissa & ((1U << shift) - 1U);
  const uint32_t half = 1U << (shift - 1);
  if (rest > half || (rest == half && (result & 1U) != 0)) ++result;
  return static_cast<uint16_t>(sign | result);
}

// IEEE 754 binary16 -> binary32, exact.
ENDCAP_HOST_DEVICE inline float HalfToFloat(uint16_t half) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(half));  // one instruction, of the same definition
#else
  const uint32_t sign = (half & 0x8000U) << 16;
  const uint32_t magnitude = half & 0x7FFFU;
  constexpr uint32_t kNormal = 0x0400;
  constexpr uint32_t kInfinity = 0x7C00;
  if (magnitude - kNormal < kInfinity - kNormal) {
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
  }
  if (magnitude >= kInfinity) return std::bit_cast<float>(sign | 0x7F800000U | (magnitude << 13));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24F;
  return sign != 0 ? -subnormal : subnormal;
#endif
}

// Converts binary16 numbers to binary32, exactly, with the scalar or the simd implementation.
// `floats` has as many elements as `halves`.
void HalvesToFloats(std::span<const uint16_t> halves, Implementation implementation, float* floats);

}  // namespace endcap
