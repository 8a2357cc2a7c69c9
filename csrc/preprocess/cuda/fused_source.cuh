#pragma once

#include <cstdint>

#include "common/color_conversion.h"
#include "preprocess/cuda/fused_bytes.cuh"
#include "preprocess/cuda/fused_launch.h"
#include "preprocess/cuda/fused_yuv.cuh"

// Pixels of an image in device memory as 4 bytes each: R, G, B (B, G, R where they are stored so)
// and one that means nothing; with `gray` the first byte is all there is.

namespace endcap {

__device__ inline uint32_t ComputePixelLuma(uint32_t pixel, bool blue_first) {
  const auto first = static_cast<uint8_t>(ExtractByte(pixel, 0));
  const auto last = static_cast<uint8_t>(ExtractByte(pixel, 2));
  return Luma(blue_first ? last : first, static_cast<uint8_t>(ExtractByte(pixel, 1)),
              blue_first ? first : last);
}

// One pixel at any address.
__device__ inline uint32_t FetchPixel(const FusedImage& image, bool gray, int x, int y) {
  if (image.source == FusedSource::kYuv) return FetchYuv(image, gray, x, y);
  const uint8_t* row = AssumeGlobal(image.planes[0]) + image.row_stride_bytes[0] * y;
  if (image.source == FusedSource::kGray) return RepeatByte(row[x]);
  const uint8_t* stored = row + int64_t{3} * x;
  const uint32_t pixel = PackPixel({stored[0], stored[1], stored[2]});
  return gray ? ComputePixelLuma(pixel, image.source == FusedSource::kBgr) : pixel;
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
__device__ inline void StageGroup(const FusedImage& image, bool gray, int x, int y, uint32_t* to) {
  if (image.source == FusedSource::kYuv) {
    StageYuv(image, gray, x, y, to);
  } else if (image.source == FusedSource::kGray) {
    StageGray(image, x, y, to);
  } else {
    StageInterleaved(image, gray, x, y, to);
  }
}

}  // namespace endcap
