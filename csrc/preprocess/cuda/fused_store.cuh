#pragma once

#include <cstdint>
#include <type_traits>

#include "common/half.h"
#include "cuda_runtime/launch.h"
#include "preprocess/cuda/fused_filter.cuh"
#include "preprocess/cuda/fused_launch.h"
#include "preprocess/tensor/normalize.h"

#if defined(__CUDA_ARCH__)
#include <cuda_fp16.h>
#endif

// From a pixel's numbers to elements of the tensor, and these to memory. kBytes: of an element.

namespace endcap {

// What a filter makes of four columns: pixels' numbers, R, G, B as in the tensor.
template <typename Number>
using QuadNumbers = Number[kQuad][kColors];

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
__device__ uint32_t LookUpElement(const void* table, int color, int32_t pixel) {
  const int index = 256 * color + pixel;
  if constexpr (kBytes == 4) return static_cast<const uint32_t*>(table)[index];
  if constexpr (kBytes == 2) return static_cast<const uint16_t*>(table)[index];
  return static_cast<const uint8_t*>(table)[index];
}

// Numbers as elements: encode(color, number) makes one.
template <typename Number, typename Encode>
__device__ void EncodeQuad(const QuadNumbers<Number>& numbers, QuadElements& elements,
                           const Encode& encode) {
#pragma unroll
  for (int c = 0; c < kColors; ++c) {
#pragma unroll
    for (int i = 0; i < kQuad; ++i) elements[c][i] = encode(c, numbers[i][c]);
  }
}

template <int kBytes>
__device__ void NormalizeQuad(const FusedLaunch& launch, const QuadNumbers<int32_t>& numbers,
                              QuadElements& elements) {
  if (launch.normalize == FusedNormalize::kTable) {
    return EncodeQuad<int32_t>(numbers, elements, [&](int c, int32_t pixel) {
      return LookUpElement<kBytes>(launch.table, c, pixel);
    });
  }
  EncodeQuad<int32_t>(numbers, elements, [&](int c, int32_t pixel) {
    const float value = launch.split[c].ApplyFused(static_cast<float>(pixel));
    return EncodeElement<kBytes>(launch.dtype, value);
  });
}

template <int kBytes>
__device__ void NormalizeQuad(const FusedLaunch& launch, const QuadNumbers<float>& numbers,
                              QuadElements& elements) {
  EncodeQuad<float>(numbers, elements, [&](int c, float pixel) {
    return EncodeElement<kBytes>(launch.dtype, launch.single[c].Apply(pixel));
  });
}

template <int kBytes>
__device__ void StoreElement(uint8_t* to, uint32_t bits) {
  if constexpr (kBytes == 4) *AssumeGlobal(reinterpret_cast<unsigned*>(to)) = bits;
  if constexpr (kBytes == 2) {
    *AssumeGlobal(reinterpret_cast<unsigned short*>(to)) = static_cast<unsigned short>(bits);
  }
  if constexpr (kBytes == 1) *AssumeGlobal(to) = static_cast<uint8_t>(bits);
}

// Four elements in one store.
template <int kBytes>
__device__ void StoreVector(uint8_t* to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  if constexpr (kBytes == 4) *AssumeGlobal(reinterpret_cast<uint4*>(to)) = make_uint4(a, b, c, d);
  if constexpr (kBytes == 2) {
    *AssumeGlobal(reinterpret_cast<uint2*>(to)) = make_uint2(a | b << 16, c | d << 16);
  }
  if constexpr (kBytes == 1) {
    *AssumeGlobal(reinterpret_cast<unsigned*>(to)) = a | b << 8 | c << 16 | d << 24;
  }
}

// Where columns [x, x + 4) of an image's rows go, and how; x is a multiple of four.
struct QuadTarget {
  uint8_t* output;
  int x;
  int column;  // of the visible window that is x
  unsigned columns;
  int out_y;  // row of the tensor that is row 0 of the window
  float sum_scale;
  bool swap_red_blue;
  bool whole;    // all four are in the window
  bool vectors;  // four elements can be stored at once

  __device__ QuadTarget(const FusedImage& image, int x_)
      : output(static_cast<uint8_t*>(image.output)),
        x(x_),
        column(x_ - image.out_x),
        columns(static_cast<unsigned>(image.visible_w)),
        out_y(image.out_y),
        sum_scale(image.sum_scale),
        swap_red_blue(image.swap_red_blue),
        whole(column >= 0 && column + kQuad <= image.visible_w),
        vectors(image.vector_stores) {}
};

// Elements of row y, as far as the tensor goes.
template <int kBytes>
__device__ void StoreQuad(const FusedLaunch& launch, const QuadTarget& target, int y,
                          const QuadElements& elements) {
  const int64_t pixel = int64_t{y} * launch.width + target.x;
  const int64_t plane_bytes = int64_t{kBytes} * launch.height * launch.width;
  const bool dense = launch.planar || launch.channels == 1;
  uint8_t* to = target.output + (dense ? kBytes : 3 * kBytes) * pixel;
  if (target.vectors && dense) {
#pragma unroll
    for (int c = 0; c < kColors; ++c) {
      if (c >= launch.channels) break;
      StoreVector<kBytes>(to, elements[c][0], elements[c][1], elements[c][2], elements[c][3]);
      to += plane_bytes;
    }
  } else if (target.vectors) {
#pragma unroll
    for (int i = 0; i < kColors; ++i) {
      const auto at = [&](int k) { return elements[(4 * i + k) % 3][(4 * i + k) / 3]; };
      StoreVector<kBytes>(to + 4 * kBytes * i, at(0), at(1), at(2), at(3));
    }
  } else {
#pragma unroll
    for (int c = 0; c < kColors; ++c) {
      if (c >= launch.channels) break;
#pragma unroll
      for (int i = 0; i < kQuad; ++i) {
        if (target.x + i >= launch.width) break;
        StoreElement<kBytes>(to + (dense ? kBytes * i + c * plane_bytes : kBytes * (3 * i + c)),
                             elements[c][i]);
      }
    }
  }
}

// Calls store with the size of an element as a constant.
template <typename Store>
__device__ void WithElementBytes(DType dtype, const Store& store) {
  switch (GetElementSize(dtype)) {
    case 1:
      return store(std::integral_constant<int, 1>{});
    case 2:
      return store(std::integral_constant<int, 2>{});
    default:
      return store(std::integral_constant<int, 4>{});
  }
}

}  // namespace endcap
