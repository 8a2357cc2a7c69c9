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

// Byte `index` of eight.
__device__ inline int EighthByte(const uint2& words, int index) {
  return static_cast<int>(ByteOf(index < 4 ? words.x : words.y, index % 4));
}

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

// A group's samples c - 1 to c + 4 of a row of half the columns; the border's beyond the border.
// `c` is a multiple of four.
__device__ inline void LoadChroma(const uint8_t* row, int width, int c, int (&samples)[6]) {
  const uint32_t word = __ldg(reinterpret_cast<const uint32_t*>(row + c));
  samples[0] = __ldg(row + (c == 0 ? 0 : c - 1));
  samples[5] = __ldg(row + (c + 4 < width ? c + 4 : width - 1));
  samples[1] = static_cast<int>(ByteOf(word, 0));
#pragma unroll
  for (int i = 1; i < 4; ++i) {
    samples[i + 1] = c + i < width ? static_cast<int>(ByteOf(word, i)) : samples[i];
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

// The second half: the chroma of pixel `i` of a group.
template <bool kBlended>
__device__ int DoubledChroma(const int (&sums)[6], int i) {
  const bool odd = i % 2 != 0;
  const int near = sums[i / 2 + 1];
  const int far = sums[odd ? i / 2 + 2 : i / 2];
  return kBlended ? UpsampleBlendedColumn(near, far, odd) : UpsampleColumn(near, far, odd);
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
  StorePixels([&](int i) { return RepeatByte(ByteOf(words[i / 4], i % 4)); }, to);
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
    StorePixels([&](int i) { return LumaOfPixel(pixel(i), blue_first); }, to);
  } else {
    StorePixels(pixel, to);
  }
}

// Pixels [x, x + kFusedGroup) of a row, x a multiple of kFusedGroup; beyond the row's end they mean
// nothing. `to` is 16-byte aligned.
__device__ inline void StageGroup(const FusedImage& image, bool gray, int x, int y, uint32_t* to) {
  if (image.source == FusedSource::kYcc) {
    StageYcc(image, gray, x, y, to);
  } else if (image.source == FusedSource::kGray) {
    StageGray(image, x, y, to);
  } else {
    StageInterleaved(image, gray, x, y, to);
  }
}

}  // namespace endcap
