#pragma once

#include <cstdint>

#include "common/color_conversion.h"
#include "cuda_runtime/launch.h"
#include "preprocess/cuda/fused_launch.h"

// What the readers of all sources share: bytes from device memory, pixels to shared memory.

namespace endcap {

__device__ inline uint32_t RepeatByte(uint32_t value) { return value * 0x010101U; }

__device__ inline uint32_t PackPixel(const Rgb8& rgb) {
  return rgb.r | static_cast<uint32_t>(rgb.g) << 8 | static_cast<uint32_t>(rgb.b) << 16;
}

__device__ inline uint32_t ExtractByte(uint32_t word, int index) {
  return word >> (8 * index) & 0xFFU;
}

// Bytes [at, at + 4 * kWords) of a row, by aligned words where none of these reaches beyond the
// row; bytes beyond its end are 0.
template <int kWords>
__device__ void LoadBytes(const uint8_t* row, int row_bytes, int at, uint32_t (&words)[kWords]) {
  const auto skip = static_cast<int>(reinterpret_cast<uintptr_t>(row + at) & 3U);
  const int end = at - skip + 4 * kWords + (skip == 0 ? 0 : 4);
  if (at >= skip && end <= row_bytes) {
    const auto* from = reinterpret_cast<const uint32_t*>(row + at - skip);
    uint32_t word = __ldg(from);
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const uint32_t next = i + 1 < kWords || skip != 0 ? __ldg(from + i + 1) : 0;
      words[i] = __funnelshift_r(word, next, 8U * static_cast<unsigned>(skip));
      word = next;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    words[i] = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int byte = at + 4 * i + k;
      if (byte < row_bytes) words[i] |= static_cast<uint32_t>(__ldg(row + byte)) << (8 * k);
    }
  }
}

// Pixels are stored in fours, so that few are in registers at a time. `to` is 16-byte aligned.
template <typename PixelAt>
__device__ void StorePixels(const PixelAt& pixel_at, uint32_t* to) {
  auto* vectors = reinterpret_cast<uint4*>(to);
#pragma unroll
  for (int i = 0; i < kFusedGroup / 4; ++i) {
    vectors[i] =
        make_uint4(pixel_at(4 * i), pixel_at(4 * i + 1), pixel_at(4 * i + 2), pixel_at(4 * i + 3));
  }
}

}  // namespace endcap
