#pragma once

#include <cstdint>

#include "common/chroma_upsampling.h"
#include "common/color_conversion.h"
#include "preprocess/cuda/fused_bytes.cuh"
#include "preprocess/cuda/fused_launch.h"

// Pixels of an image in YUV, whose planes have any layout: at any address, any
// distance between rows, U and V apart or in pairs.

namespace endcap {

__device__ inline uint32_t FetchYuv(const FusedImage& image, bool gray, int x, int y) {
  const int luma = AssumeGlobal(image.planes[0])[image.row_stride_bytes[0] * y + x];
  if (gray) return RepeatByte(YuvPixelToGray(image.yuv, luma));
  const auto chroma = [&](int plane) {
    return UpsampleChroma(image.upsampling,
                          {AssumeGlobal(image.planes[plane]), image.row_stride_bytes[plane],
                           image.chroma_step, image.chroma_width, image.chroma_height},
                          x, y);
  };
  return PackPixel(YuvPixelToRgb(image.yuv, luma, chroma(1), chroma(2)));
}

// A sample of Cb and one of Cr in one word, 16 bits each: what the filter adds up stays below 2^12,
// so that both are filtered at once.
__device__ inline uint32_t PairChroma(uint32_t cb, uint32_t cr) { return cb | cr << 16; }

// Samples c - 1 to c + 4 of chroma row `y`, half the columns; the border's beyond the border. `c`
// is a multiple of four.
__device__ inline void LoadYuvChroma(const FusedImage& image, int c, int y, uint32_t (&pairs)[6]) {
  const uint8_t* cb = image.planes[1] + image.row_stride_bytes[1] * y;
  const uint8_t* cr = image.planes[2] + image.row_stride_bytes[2] * y;
  const int width = image.chroma_width;
  const int step = image.chroma_step;
  const int before = step * (c == 0 ? 0 : c - 1);
  const int after = step * (c + 4 < width ? c + 4 : width - 1);
  pairs[0] = PairChroma(__ldg(cb + before), __ldg(cr + before));
  pairs[5] = PairChroma(__ldg(cb + after), __ldg(cr + after));
  if (step == 2) {
    uint32_t words[2];
    LoadBytes(cb, 2 * width, 2 * c, words);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i + 1] = PairChroma(ExtractByte(words[i / 2], 2 * (i % 2)),
                                ExtractByte(words[i / 2], 2 * (i % 2) + 1));
    }
  } else {
    uint32_t u[1];
    uint32_t v[1];
    LoadBytes(cb, width, c, u);
    LoadBytes(cr, width, c, v);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pairs[i + 1] = PairChroma(ExtractByte(u[0], i), ExtractByte(v[0], i));
  }
#pragma unroll
  for (int i = 1; i < 4; ++i) pairs[i + 1] = c + i < width ? pairs[i + 1] : pairs[i];
}

// The filter's halves: rows, then the columns of pixel `i` of a group.
__device__ inline uint32_t BlendPairs(uint32_t near, uint32_t far) { return 3 * near + far; }

template <bool kBlended>
__device__ uint32_t DoubledPair(const uint32_t (&pairs)[6], int i) {
  const bool odd = i % 2 != 0;
  const uint32_t sum = BlendPairs(pairs[i / 2 + 1], pairs[odd ? i / 2 + 2 : i / 2]);
  return sum + static_cast<uint32_t>(UpsampleBias(kBlended, odd)) * 0x10001U;
}

template <bool kBlended>
__device__ void StageYuvDoubled(const FusedImage& image, const uint32_t (&luma)[2], int x, int y,
                                uint32_t* to) {
  constexpr int kShift = kBlended ? 4 : 2;
  uint32_t pairs[6];
  LoadYuvChroma(image, x / 2, kBlended ? y / 2 : y, pairs);
  if constexpr (kBlended) {
    uint32_t far[6];
    LoadYuvChroma(image, x / 2, FarChromaRow(y, image.chroma_height), far);
#pragma unroll
    for (int i = 0; i < 6; ++i) pairs[i] = BlendPairs(pairs[i], far[i]);
  }
  StorePixels(
      [&](int i) {
        const uint32_t pair = DoubledPair<kBlended>(pairs, i);
        return PackPixel(YuvPixelToRgb(image.yuv, static_cast<int>(ExtractByte(luma[i / 4], i % 4)),
                                       static_cast<int>((pair & 0xFFFFU) >> kShift),
                                       static_cast<int>(pair >> (16 + kShift))));
      },
      to);
}

// Four samples of a row of chroma with all columns, or between that row and the next one of its
// side.
__device__ inline uint32_t LoadYuvFull(const FusedImage& image, int plane, int x, int y) {
  const uint8_t* base = image.planes[plane];
  const int64_t stride = image.row_stride_bytes[plane];
  const bool blended = HasRowContext(image.upsampling);
  uint32_t near[1];
  LoadBytes(base + stride * (blended ? y / 2 : y), image.chroma_width, x, near);
  if (!blended) return near[0];
  uint32_t far[1];
  LoadBytes(base + stride * FarChromaRow(y, image.chroma_height), image.chroma_width, x, far);
  uint32_t samples = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int sample = UpsampleRow(static_cast<int>(ExtractByte(near[0], i)),
                                   static_cast<int>(ExtractByte(far[0], i)), y % 2 != 0);
    samples |= static_cast<uint32_t>(sample) << (8 * i);
  }
  return samples;
}

// Four pixels at a time, so that few are in registers.
__device__ inline void StageYuvFull(const FusedImage& image, const uint32_t (&luma)[2], int x,
                                    int y, uint32_t* to) {
#pragma unroll 1
  for (int half = 0; half < 2; ++half) {
    const uint32_t cb = LoadYuvFull(image, 1, x + 4 * half, y);
    const uint32_t cr = LoadYuvFull(image, 2, x + 4 * half, y);
    const uint32_t four = half == 0 ? luma[0] : luma[1];
    const auto pixel = [&](int i) {
      return PackPixel(YuvPixelToRgb(image.yuv, static_cast<int>(ExtractByte(four, i)),
                                     static_cast<int>(ExtractByte(cb, i)),
                                     static_cast<int>(ExtractByte(cr, i))));
    };
    reinterpret_cast<uint4*>(to)[half] = make_uint4(pixel(0), pixel(1), pixel(2), pixel(3));
  }
}

__device__ inline void StageYuv(const FusedImage& image, bool gray, int x, int y, uint32_t* to) {
  uint32_t luma[2];
  LoadBytes(image.planes[0] + image.row_stride_bytes[0] * y, image.width, x, luma);
  if (gray) {
    StorePixels(
        [&](int i) {
          return RepeatByte(
              YuvPixelToGray(image.yuv, static_cast<int>(ExtractByte(luma[i / 4], i % 4))));
        },
        to);
  } else if (image.upsampling == ChromaUpsampling::kColumnsAndRows) {
    StageYuvDoubled<true>(image, luma, x, y, to);
  } else if (image.upsampling == ChromaUpsampling::kColumns) {
    StageYuvDoubled<false>(image, luma, x, y, to);
  } else {
    StageYuvFull(image, luma, x, y, to);
  }
}

}  // namespace endcap
