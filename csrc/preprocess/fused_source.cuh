#pragma once

#include <cstdint>

#include "common/pixel_arithmetic.h"
#include "decode/chroma_upsampling.h"
#include "decode/ycc_arithmetic.h"
#include "preprocess/fused_launch.h"

// Pixels of an image in device memory as 4 bytes each: R, G, B (B, G, R where they are stored so)
// and one that means nothing; with `gray` the first byte is all there is.

namespace endcap {

__device__ inline uint32_t RepeatByte(uint32_t value) { return value * 0x010101U; }

__device__ inline uint32_t PackPixel(const Rgb8& rgb) {
  return rgb.r | static_cast<uint32_t>(rgb.g) << 8 | static_cast<uint32_t>(rgb.b) << 16;
}

__device__ inline uint32_t ByteOf(uint32_t word, int index) { return word >> (8 * index) & 0xFFU; }

__device__ inline uint32_t LumaOfPixel(uint32_t pixel, bool blue_first) {
  const auto first = static_cast<uint8_t>(ByteOf(pixel, 0));
  const auto last = static_cast<uint8_t>(ByteOf(pixel, 2));
  return Luma(blue_first ? last : first, static_cast<uint8_t>(ByteOf(pixel, 1)),
              blue_first ? first : last);
}

// One pixel, wherever it stands.
__device__ inline uint32_t FetchPixel(const FusedImage& image, bool gray, int x, int y) {
  const uint8_t* row = image.planes[0] + image.row_stride_bytes[0] * y;
  if (image.source == FusedSource::kRgb || image.source == FusedSource::kBgr) {
    const uint8_t* stored = row + int64_t{3} * x;
    const uint32_t pixel = PackPixel({stored[0], stored[1], stored[2]});
    return gray ? LumaOfPixel(pixel, image.source == FusedSource::kBgr) : pixel;
  }
  const uint32_t luma = row[x];
  if (gray || image.source == FusedSource::kGray || image.upsampling == ChromaUpsampling::kGray) {
    return RepeatByte(luma);
  }
  const auto chroma = [&](int plane) {
    return UpsampleChroma(image.upsampling, image.planes[plane], image.row_stride_bytes[plane],
                          image.chroma_width, image.chroma_height, x, y);
  };
  return PackPixel(YccPixelToRgb(static_cast<int32_t>(luma), chroma(1), chroma(2)));
}

// Bytes [at, at + 4 * kWords) of a row, by aligned words where none of these reaches beyond the
// row; bytes beyond its end are 0.
template <int kWords>
__device__ void LoadBytes(const uint8_t* row, int row_bytes, int at, uint32_t (&words)[kWords]) {
  const auto skip = static_cast<int>(reinterpret_cast<uintptr_t>(row + at) & 3U);
  const int end = at - skip + 4 * kWords + (skip == 0 ? 0 : 4);
  if (at >= skip && end <= row_bytes) {
    const auto* from = reinterpret_cast<const uint32_t*>(row + at - skip);
    uint32_t word = from[0];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const uint32_t next = i + 1 < kWords || skip != 0 ? from[i + 1] : 0;
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
      if (byte < row_bytes) words[i] |= static_cast<uint32_t>(row[byte]) << (8 * k);
    }
  }
}

// Four interleaved pixels of three words.
__device__ inline void UnpackPixels(const uint32_t* words, uint32_t* pixels) {
  pixels[0] = words[0];
  pixels[1] = __funnelshift_r(words[0], words[1], 24);
  pixels[2] = __funnelshift_r(words[1], words[2], 16);
  pixels[3] = words[2] >> 8;
}

// Samples c - 1 to c + 4 of a row of half the columns; the border's beyond the border. `c` is a
// multiple of four.
__device__ inline void LoadChroma(const uint8_t* row, int width, int c, int (&samples)[6]) {
  const uint32_t word = *reinterpret_cast<const uint32_t*>(row + c);
  samples[0] = row[c == 0 ? 0 : c - 1];
  samples[5] = row[c + 4 < width ? c + 4 : width - 1];
  samples[1] = static_cast<int>(ByteOf(word, 0));
#pragma unroll
  for (int i = 1; i < 4; ++i) {
    samples[i + 1] = c + i < width ? static_cast<int>(ByteOf(word, i)) : samples[i];
  }
}

// The chroma of a group where there are half the columns.
template <bool kBlended>
__device__ void DoubleChroma(const FusedImage& image, int plane, int x, int y,
                             int (&chroma)[kFusedGroup]) {
  const uint8_t* base = image.planes[plane];
  const int64_t stride = image.row_stride_bytes[plane];
  int sums[6];
  LoadChroma(base + stride * (kBlended ? y / 2 : y), image.chroma_width, x / 2, sums);
  if constexpr (kBlended) {
    int far[6];
    LoadChroma(base + stride * FarChromaRow(y, image.chroma_height), image.chroma_width, x / 2,
               far);
#pragma unroll
    for (int i = 0; i < 6; ++i) sums[i] = BlendChromaRows(sums[i], far[i]);
  }
#pragma unroll
  for (int i = 0; i < kFusedGroup; ++i) {
    const bool odd = i % 2 != 0;
    const int near = sums[i / 2 + 1];
    const int far = sums[odd ? i / 2 + 2 : i / 2];
    chroma[i] = kBlended ? UpsampleBlendedColumn(near, far, odd) : UpsampleColumn(near, far, odd);
  }
}

// The chroma of a group where there are all columns.
__device__ inline void FullChroma(const FusedImage& image, int plane, int x, int y,
                                  int (&chroma)[kFusedGroup]) {
  const uint8_t* base = image.planes[plane] + x;
  const int64_t stride = image.row_stride_bytes[plane];
  const bool blended = HasRowContext(image.upsampling);
  const uint2 near = *reinterpret_cast<const uint2*>(base + stride * (blended ? y / 2 : y));
  uint2 far = near;
  if (blended) {
    far = *reinterpret_cast<const uint2*>(base + stride * FarChromaRow(y, image.chroma_height));
  }
#pragma unroll
  for (int i = 0; i < kFusedGroup; ++i) {
    const auto sample = static_cast<int>(ByteOf(i < 4 ? near.x : near.y, i % 4));
    const auto other = static_cast<int>(ByteOf(i < 4 ? far.x : far.y, i % 4));
    chroma[i] = blended ? UpsampleRow(sample, other, y % 2 != 0) : sample;
  }
}

__device__ inline void LoadYccGroup(const FusedImage& image, bool gray, int x, int y,
                                    uint32_t (&pixels)[kFusedGroup]) {
  const uint8_t* row = image.planes[0] + image.row_stride_bytes[0] * y;
  const uint2 luma = *reinterpret_cast<const uint2*>(row + x);
  const bool colored = !gray && image.upsampling != ChromaUpsampling::kGray;
  int cb[kFusedGroup] = {};
  int cr[kFusedGroup] = {};
  if (colored && image.upsampling == ChromaUpsampling::kColumnsAndRows) {
    DoubleChroma<true>(image, 1, x, y, cb);
    DoubleChroma<true>(image, 2, x, y, cr);
  } else if (colored && image.upsampling == ChromaUpsampling::kColumns) {
    DoubleChroma<false>(image, 1, x, y, cb);
    DoubleChroma<false>(image, 2, x, y, cr);
  } else if (colored) {
    FullChroma(image, 1, x, y, cb);
    FullChroma(image, 2, x, y, cr);
  }
#pragma unroll
  for (int i = 0; i < kFusedGroup; ++i) {
    const uint32_t value = ByteOf(i < 4 ? luma.x : luma.y, i % 4);
    pixels[i] = colored ? PackPixel(YccPixelToRgb(static_cast<int32_t>(value), cb[i], cr[i]))
                        : RepeatByte(value);
  }
}

__device__ inline void LoadInterleavedGroup(const FusedImage& image, bool gray, int x, int y,
                                            uint32_t (&pixels)[kFusedGroup]) {
  const uint8_t* row = image.planes[0] + image.row_stride_bytes[0] * y;
  uint32_t words[6];
  LoadBytes(row, 3 * image.width, 3 * x, words);
  UnpackPixels(words, pixels);
  UnpackPixels(words + 3, pixels + 4);
  if (!gray) return;
#pragma unroll
  for (uint32_t& pixel : pixels) {
    pixel = LumaOfPixel(pixel, image.source == FusedSource::kBgr);
  }
}

// Pixels [x, x + kFusedGroup) of a row, x a multiple of kFusedGroup; beyond the row's end they mean
// nothing. `to` is 16-byte aligned.
__device__ inline void StageGroup(const FusedImage& image, bool gray, int x, int y, uint32_t* to) {
  uint32_t pixels[kFusedGroup];
  if (image.source == FusedSource::kYcc) {
    LoadYccGroup(image, gray, x, y, pixels);
  } else if (image.source == FusedSource::kGray) {
    const uint8_t* row = image.planes[0] + image.row_stride_bytes[0] * y;
    uint32_t words[2];
    LoadBytes(row, image.width, x, words);
#pragma unroll
    for (int i = 0; i < kFusedGroup; ++i) pixels[i] = RepeatByte(ByteOf(words[i / 4], i % 4));
  } else {
    LoadInterleavedGroup(image, gray, x, y, pixels);
  }
  auto* vectors = reinterpret_cast<uint4*>(to);
  vectors[0] = make_uint4(pixels[0], pixels[1], pixels[2], pixels[3]);
  vectors[1] = make_uint4(pixels[4], pixels[5], pixels[6], pixels[7]);
}

}  // namespace endcap
