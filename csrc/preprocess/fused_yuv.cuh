#pragma once

#include <cstdint>

#include "common/chroma_upsampling.h"
#include "common/yuv_arithmetic.h"
#include "preprocess/fused_bytes.cuh"
#include "preprocess/fused_launch.h"

// Pixels of an image in YUV, its planes as somebody else laid them out: at any address, any
// distance between rows, U and V apart or in pairs. What fused_source.cuh does for the other
// sources.

namespace endcap {

__device__ inline uint32_t FetchYuv(const FusedImage& image, bool gray, int x, int y) {
  const int luma = image.planes[0][image.row_stride_bytes[0] * y + x];
  if (gray) return RepeatByte(YuvPixelToGray(image.yuv, luma));
  const auto chroma = [&](int plane) {
    return UpsampleChroma(image.upsampling,
                          {image.planes[plane], image.row_stride_bytes[plane], image.chroma_step,
                           image.chroma_width, image.chroma_height},
                          x, y);
  };
  return PackPixel(YuvPixelToRgb(image.yuv, luma, chroma(1), chroma(2)));
}

// Samples c - 1 to c + 4 of a row of one component, half the columns and `step` bytes apart; the
// border's beyond the border. `c` is a multiple of four.
__device__ inline void LoadYuvChroma(const uint8_t* row, int step, int width, int c,
                                     int (&samples)[6]) {
  if (step == 2) {
    uint32_t pairs[2];
    LoadBytes(row, 2 * width - 1, 2 * c, pairs);  // the other component's bytes mean nothing
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      samples[i + 1] = static_cast<int>(ByteOf(pairs[i / 2], 2 * (i % 2)));
    }
  } else {
    uint32_t word[1];
    LoadBytes(row, width, c, word);
#pragma unroll
    for (int i = 0; i < 4; ++i) samples[i + 1] = static_cast<int>(ByteOf(word[0], i));
  }
  samples[0] = __ldg(row + step * (c == 0 ? 0 : c - 1));
  samples[5] = __ldg(row + step * (c + 4 < width ? c + 4 : width - 1));
#pragma unroll
  for (int i = 1; i < 4; ++i) samples[i + 1] = c + i < width ? samples[i + 1] : samples[i];
}

// The same of two rows, added up as the filter's first half.
template <bool kBlended>
__device__ void LoadYuvSums(const FusedImage& image, int plane, int x, int y, int (&sums)[6]) {
  const uint8_t* base = image.planes[plane];
  const int64_t stride = image.row_stride_bytes[plane];
  LoadYuvChroma(base + stride * (kBlended ? y / 2 : y), image.chroma_step, image.chroma_width,
                x / 2, sums);
  if constexpr (kBlended) {
    int far[6];
    LoadYuvChroma(base + stride * FarChromaRow(y, image.chroma_height), image.chroma_step,
                  image.chroma_width, x / 2, far);
#pragma unroll
    for (int i = 0; i < 6; ++i) sums[i] = BlendChromaRows(sums[i], far[i]);
  }
}

template <bool kBlended>
__device__ void StageYuvDoubled(const FusedImage& image, const uint32_t (&luma)[2], int x, int y,
                                uint32_t* to) {
  int cb[6];
  int cr[6];
  LoadYuvSums<kBlended>(image, 1, x, y, cb);
  LoadYuvSums<kBlended>(image, 2, x, y, cr);
  StorePixels(
      [&](int i) {
        return PackPixel(YuvPixelToRgb(image.yuv, static_cast<int>(ByteOf(luma[i / 4], i % 4)),
                                       DoubledChroma<kBlended>(cb, i),
                                       DoubledChroma<kBlended>(cr, i)));
      },
      to);
}

// Chroma with all columns, of one row or between two. Samples of components lie beside each other.
__device__ inline void StageYuvFull(const FusedImage& image, const uint32_t (&luma)[2], int x,
                                    int y, uint32_t* to) {
  const bool blended = HasRowContext(image.upsampling);
  const int far_row = blended ? FarChromaRow(y, image.chroma_height) : y;
  uint32_t near[2][2];
  uint32_t far[2][2];
#pragma unroll
  for (int plane = 0; plane < 2; ++plane) {
    const uint8_t* base = image.planes[plane + 1];
    const int64_t stride = image.row_stride_bytes[plane + 1];
    LoadBytes(base + stride * (blended ? y / 2 : y), image.chroma_width, x, near[plane]);
    LoadBytes(base + stride * far_row, image.chroma_width, x, far[plane]);
  }
  const auto chroma = [&](int plane, int i) {
    const auto sample = static_cast<int>(ByteOf(near[plane][i / 4], i % 4));
    const auto other = static_cast<int>(ByteOf(far[plane][i / 4], i % 4));
    return blended ? UpsampleRow(sample, other, y % 2 != 0) : sample;
  };
  StorePixels(
      [&](int i) {
        return PackPixel(YuvPixelToRgb(image.yuv, static_cast<int>(ByteOf(luma[i / 4], i % 4)),
                                       chroma(0, i), chroma(1, i)));
      },
      to);
}

__device__ inline void StageYuv(const FusedImage& image, bool gray, int x, int y, uint32_t* to) {
  uint32_t luma[2];
  LoadBytes(image.planes[0] + image.row_stride_bytes[0] * y, image.width, x, luma);
  if (gray) {
    StorePixels(
        [&](int i) {
          return RepeatByte(
              YuvPixelToGray(image.yuv, static_cast<int>(ByteOf(luma[i / 4], i % 4))));
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
