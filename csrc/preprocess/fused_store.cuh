#pragma once

#include <cstdint>

#include "common/half.h"
#include "preprocess/fused_filter.cuh"
#include "preprocess/fused_launch.h"
#include "preprocess/normalize.h"

#if defined(__CUDA_ARCH__)
#include <cuda_fp16.h>
#endif

// From a pixel's numbers to elements of the tensor, and these to memory. kBytes: of an element.

namespace endcap {

// A store to the tensor. The compiler cannot see that its address is one of global memory.
template <typename T>
__device__ void StoreGlobal(T* to, T value) {
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(to));
#endif
  *to = value;
}

// Elements of four columns, as bits.
using QuadElements = uint32_t[kColors][kQuad];

template <int kBytes>
__device__ uint32_t EncodeElement(DType dtype, float value) {
  if constexpr (kBytes == 4) {
    return __float_as_uint(value);
  } else if constexpr (kBytes == 2) {
#if defined(__CUDA_ARCH__)
    return __half_as_ushort(__float2half_rn(value));
#else
    return FloatToHalf(value);
#endif
  } else {
    return dtype == DType::kInt8 ? static_cast<uint8_t>(StoreAs<int8_t>(value))
                                 : StoreAs<uint8_t>(value);
  }
}

template <int kBytes>
__device__ uint32_t LookUpElement(const void* table, int color, uint8_t pixel) {
  const int index = 256 * color + pixel;
  if constexpr (kBytes == 4) return static_cast<const uint32_t*>(table)[index];
  if constexpr (kBytes == 2) return static_cast<const uint16_t*>(table)[index];
  return static_cast<const uint8_t*>(table)[index];
}

template <int kBytes>
__device__ uint32_t Normalize(const FusedLaunch& launch, int color, uint8_t pixel) {
  if (launch.normalize == FusedNormalize::kTable) {
    return LookUpElement<kBytes>(launch.table, color, pixel);
  }
  return EncodeElement<kBytes>(launch.dtype, launch.split[color].Apply(static_cast<float>(pixel)));
}

template <int kBytes>
__device__ uint32_t Normalize(const FusedLaunch& launch, int color, float pixel) {
  return EncodeElement<kBytes>(launch.dtype, launch.single[color].Apply(pixel));
}

// One element; `index` counts elements.
template <int kBytes>
__device__ void StoreElement(void* data, int64_t index, uint32_t bits) {
  if constexpr (kBytes == 4) StoreGlobal(static_cast<unsigned*>(data) + index, bits);
  if constexpr (kBytes == 2) {
    StoreGlobal(static_cast<unsigned short*>(data) + index, static_cast<unsigned short>(bits));
  }
  if constexpr (kBytes == 1) {
    StoreGlobal(static_cast<unsigned char*>(data) + index, static_cast<unsigned char>(bits));
  }
}

// Four elements from `index`, a multiple of four, in one store.
template <int kBytes>
__device__ void StoreVector(void* data, int64_t index, uint32_t a, uint32_t b, uint32_t c,
                            uint32_t d) {
  const int64_t vector = index / kQuad;
  if constexpr (kBytes == 4) {
    StoreGlobal(static_cast<uint4*>(data) + vector, make_uint4(a, b, c, d));
  }
  if constexpr (kBytes == 2) {
    StoreGlobal(static_cast<uint2*>(data) + vector, make_uint2(a | b << 16, c | d << 16));
  }
  if constexpr (kBytes == 1) {
    StoreGlobal(static_cast<unsigned*>(data) + vector, a | b << 8 | c << 16 | d << 24);
  }
}

// Columns [x, x + 4) of row y, as far as the tensor goes; x is a multiple of four.
template <int kBytes>
__device__ void StoreQuad(const FusedLaunch& launch, const FusedImage& image, int x, int y,
                          const QuadElements& elements) {
  const int64_t pixel = int64_t{y} * launch.width + x;
  const int64_t plane = int64_t{launch.height} * launch.width;
  const bool dense = launch.planar || launch.channels == 1;
  if (image.vector_stores && dense) {
#pragma unroll
    for (int c = 0; c < kColors; ++c) {
      if (c >= launch.channels) break;
      StoreVector<kBytes>(image.output, plane * c + pixel, elements[c][0], elements[c][1],
                          elements[c][2], elements[c][3]);
    }
  } else if (image.vector_stores) {
#pragma unroll
    for (int i = 0; i < kColors; ++i) {
      const auto at = [&](int k) { return elements[(4 * i + k) % 3][(4 * i + k) / 3]; };
      StoreVector<kBytes>(image.output, 3 * pixel + 4 * i, at(0), at(1), at(2), at(3));
    }
  } else {
#pragma unroll
    for (int c = 0; c < kColors; ++c) {
      if (c >= launch.channels) break;
#pragma unroll
      for (int i = 0; i < kQuad; ++i) {
        if (x + i >= launch.width) break;
        const int64_t index = dense ? plane * c + pixel + i : 3 * (pixel + i) + c;
        StoreElement<kBytes>(image.output, index, elements[c][i]);
      }
    }
  }
}

}  // namespace endcap
