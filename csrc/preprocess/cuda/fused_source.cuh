#pragma once

#include <cstdint>

#include "common/chroma_upsampling.h"
#include "common/color_conversion.h"
#include "preprocess/cuda/fused_bytes.cuh"
#include "preprocess/cuda/fused_launch.h"
#include "preprocess/cuda/fused_yuv.cuh"

// Pixels of an image in device memory as 4 bytes each: R, G, B (B, G, R where they are stored so)
// and one that means nothing; with `gray` the first byte is all there is.

namespace endcap {

// Byte `index` of eight.
__device__ inline int EighthByte(const uint2& words, int index) {
  return static_cast<int>(ExtractByte(index < 4 ? words.x : words.y, index % 4));
}

__device__ inline uint32_t ComputePixelLuma(uint32_t pixel, bool blue_first) {
  const auto first = static_cast<uint8_t>(ExtractByte(pixel, 0));
  const auto last = static_cast<uint8_t>(ExtractByte(pixel, 2));
  return Luma(blue_first ? last : first, static_cast<uint8_t>(ExtractByte(pixel, 1)),
              blue_first ? first : last);
}

__device__ inline uint32_t FetchYcc(const FusedImage& image, bool gray, int x, int y) {
  const uint32_t luma = image.planes[0][image.row_stride_bytes[0] * y + x];
  if (gray || image.upsampling == ChromaUpsampling::kGray) return RepeatByte(luma);
  const auto chroma = [&](int plane) {
    return UpsampleChroma(image.upsampling,
                          {image.planes[plane], image.row_stride_bytes[plane], 1,
                           image.chroma_width, image.chroma_height},
                          x, y);
  };
  return PackPixel(YccPixelToRgb(static_cast<int32_t>(luma), chroma(1), chroma(2)));
}

// One pixel at any address.
template <FusedVariant kVariant>
__device__ uint32_t FetchPixel(const FusedImage& image, bool gray, int x, int y) {
  if constexpr (kVariant == FusedVariant::kStagedYuv) return FetchYuv(image, gray, x, y);
  if (image.source == FusedSource::kYcc) return FetchYcc(image, gray, x, y);
  if (kVariant == FusedVariant::kInPlace && image.source == FusedSource::kYuv) {
    return FetchYuv(image, gray, x, y);
  }
  const uint8_t* row = image.planes[0] + image.row_stride_bytes[0] * y;
  if (image.source == FusedSource::kGray) return RepeatByte(row[x]);
  const uint8_t* stored = row + int64_t{3} * x;
  const uint32_t pixel = PackPixel({stored[0], stored[1], stored[2]});
  return gray ? ComputePixelLuma(pixel, image.source == FusedSource::kBgr) : pixel;
}

// A group's samples c - 1 to c + 4 of a row of half the columns; the border's beyond the border.
// `c` is a multiple of four.
__device__ inline void LoadChroma(const uint8_t* row, int width, int c, int (&samples)[6]) {
  const uint32_t word = __ldg(reinterpret_cast<const uint32_t*>(row + c));
  samples[0] = __ldg(row + (c == 0 ? 0 : c - 1));
  samples[5] = __ldg(row + (c + 4 < width ? c + 4 : width - 1));
  samples[1] = static_cast<int>(ExtractByte(word, 0));
#pragma unroll
  for (int i = 1; i < 4; ++i) {
    samples[i + 1] = c + i < width ? static_cast<int>(ExtractByte(word, i)) : samples[i];
  }
}

// The same of two rows, added up as the filter's first half.
template <bool kBlended>
__device__ void LoadChromaSums(const FusedImage& image, int plane, int x, int y, int (&sums)[6]) {
  const uint8_t* base = image.planes[plane];
  const int64_t stride = image.row_stride_bytes[plane];
  LoadChroma(base + stride * (kBlended ? y / 2 : y), image.chroma_width, x / 2, sums);
  if constexpr (kBlended) {
    int far[6];
    LoadChroma(base + stride * FarChromaRow(y, image.chroma_height), image.chroma_width, x / 2,
               far);
#pragma unroll
    for (int i = 0; i < 6; ++i) sums[i] = BlendChromaRows(sums[i], far[i]);
  }
}

template <bool kBlended>
__device__ void StageDoubled(const FusedImage& image, const uint2& luma, int x, int y,
                             uint32_t* to) {
  int cb[6];
  int cr[6];
  LoadChromaSums<kBlended>(image, 1, x, y, cb);
  LoadChromaSums<kBlended>(image, 2, x, y, cr);
  StorePixels(
      [&](int i) {
        return PackPixel(YccPixelToRgb(EighthByte(luma, i), DoubledChroma<kBlended>(cb, i),
                                       DoubledChroma<kBlended>(cr, i)));
      },
      to);
}

// Chroma with all columns, of one row or between two.
__device__ inline void StageFull(const FusedImage& image, const uint2& luma, int x, int y,
                                 uint32_t* to) {
  const bool blended = HasRowContext(image.upsampling);
  uint2 near[2];
  uint2 far[2];
#pragma unroll
  for (int plane = 0; plane < 2; ++plane) {
    const uint8_t* base = image.planes[plane + 1] + x;
    const int64_t stride = image.row_stride_bytes[plane + 1];
    near[plane] = __ldg(reinterpret_cast<const uint2*>(base + stride * (blended ? y / 2 : y)));
    const int far_row = blended ? FarChromaRow(y, image.chroma_height) : y;
    far[plane] = __ldg(reinterpret_cast<const uint2*>(base + stride * far_row));
  }
  const auto chroma = [&](int plane, int i) {
    const int sample = EighthByte(near[plane], i);
    return blended ? UpsampleRow(sample, EighthByte(far[plane], i), y % 2 != 0) : sample;
  };
  StorePixels(
      [&](int i) {
        return PackPixel(YccPixelToRgb(EighthByte(luma, i), chroma(0, i), chroma(1, i)));
      },
      to);
}

__device__ inline void StageYcc(const FusedImage& image, bool gray, int x, int y, uint32_t* to) {
  const uint8_t* row = image.planes[0] + image.row_stride_bytes[0] * y;
  const uint2 luma = __ldg(reinterpret_cast<const uint2*>(row + x));
  if (gray || image.upsampling == ChromaUpsampling::kGray) {
    StorePixels([&](int i) { return RepeatByte(static_cast<uint32_t>(EighthByte(luma, i))); }, to);
  } else if (image.upsampling == ChromaUpsampling::kColumnsAndRows) {
    StageDoubled<true>(image, luma, x, y, to);
  } else if (image.upsampling == ChromaUpsampling::kColumns) {
    StageDoubled<false>(image, luma, x, y, to);
  } else {
    StageFull(image, luma, x, y, to);
  }
}

__device__ inline void StageGray(const FusedImage& image, int x, int y, uint32_t* to) {
  uint32_t words[2];
  LoadBytes(image.planes[0] + image.row_stride_bytes[0] * y, image.width, x, words);
  StorePixels([&](int i) { return RepeatByte(ExtractByte(words[i / 4], i % 4)); }, to);
}

__device__ inline void StageInterleaved(const FusedImage& image, bool gray, int x, int y,
                                        uint32_t* to) {
  uint32_t words[6];
  LoadBytes(image.planes[0] + image.row_stride_bytes[0] * y, 3 * image.width, 3 * x, words);
  const auto pixel = [&](int i) {
    const int word = 3 * i / 4;
    return i % 4 == 0   ? words[word]
           : i % 4 == 3 ? words[word] >> 8
                        : __funnelshift_r(words[word], words[word + 1], 3 * i % 4 * 8U);
  };
  if (gray) {
    const bool blue_first = image.source == FusedSource::kBgr;
    StorePixels([&](int i) { return ComputePixelLuma(pixel(i), blue_first); }, to);
  } else {
    StorePixels(pixel, to);
  }
}

// Pixels [x, x + kFusedGroup) of a row, x a multiple of kFusedGroup; beyond the row's end they mean
// nothing. `to` is 16-byte aligned.
template <FusedVariant kVariant>
__device__ void StageGroup(const FusedImage& image, bool gray, int x, int y, uint32_t* to) {
  if constexpr (kVariant == FusedVariant::kStagedYuv) {
    StageYuv(image, gray, x, y, to);
  } else if (image.source == FusedSource::kYcc) {
    StageYcc(image, gray, x, y, to);
  } else if (image.source == FusedSource::kGray) {
    StageGray(image, x, y, to);
  } else {
    StageInterleaved(image, gray, x, y, to);
  }
}

}  // namespace endcap
