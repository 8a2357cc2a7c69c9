#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace endcap {

// How chroma planes are upsampled; kGray: there are none.
enum class ChromaUpsampling : int32_t { kGray, kNone, kColumns, kRows, kColumnsAndRows };

// Whether chroma has half the rows, so that an image row needs two rows of it.
constexpr bool HasRowContext(ChromaUpsampling upsampling) {
  return upsampling == ChromaUpsampling::kRows || upsampling == ChromaUpsampling::kColumnsAndRows;
}

// Whether chroma has half the columns.
constexpr bool HasColumnContext(ChromaUpsampling upsampling) {
  return upsampling == ChromaUpsampling::kColumns ||
         upsampling == ChromaUpsampling::kColumnsAndRows;
}

// libjpeg(-turbo)'s default ("fancy") chroma upsampling of one sample, once for host and device: a
// triangle filter, 3/4 of the sample that covers the pixel and 1/4 of the next one on the pixel's
// side; beyond the border the border's own. Roundings are those of jdsample.c: two neighbouring
// pixels round to different sides.

// The row beside row `y / 2` of the component that image row `y` takes its quarter from.
ENDCAP_HOST_DEVICE constexpr int FarChromaRow(int y, int chroma_height) {
  if (y % 2 == 0) return y < 2 ? 0 : y / 2 - 1;
  return y / 2 + 1 < chroma_height ? y / 2 + 1 : chroma_height - 1;
}

// What is added before a sum is divided by 4, or by 16 where both axes are subsampled: rounding to
// one side in even rows or columns and to the other in odd ones.
ENDCAP_HOST_DEVICE constexpr int UpsampleBias(bool both_axes, bool odd) {
  if (both_axes) return odd ? 7 : 8;
  return odd ? 2 : 1;
}

// Only the rows are subsampled.
ENDCAP_HOST_DEVICE constexpr int UpsampleRow(int near, int far, bool odd_row) {
  return (3 * near + far + UpsampleBias(false, odd_row)) >> 2;
}

// Only the columns are subsampled.
ENDCAP_HOST_DEVICE constexpr int UpsampleColumn(int near, int far, bool odd_column) {
  return (3 * near + far + UpsampleBias(false, odd_column)) >> 2;
}

// Both: rows first, as sums that are not rounded, then the columns of these.
ENDCAP_HOST_DEVICE constexpr int BlendChromaRows(int near, int far) { return 3 * near + far; }
ENDCAP_HOST_DEVICE constexpr int UpsampleBlendedColumn(int near, int far, bool odd_column) {
  return (3 * near + far + UpsampleBias(true, odd_column)) >> 4;
}

// The positions of a component's samples.
struct ChromaPlane {
  const uint8_t* data = nullptr;
  int64_t row_stride = 0;   // bytes
  int32_t sample_step = 1;  // bytes; 2 where Cb and Cr alternate
  int32_t width = 0;        // samples
  int32_t height = 0;

  ENDCAP_HOST_DEVICE int At(int x, int y) const {
    return data[row_stride * y + int64_t{sample_step} * x];
  }
};

// The chroma of pixel (x, y).
ENDCAP_HOST_DEVICE inline int UpsampleChroma(ChromaUpsampling upsampling, const ChromaPlane& plane,
                                             int x, int y) {
  const bool odd_column = x % 2 != 0;
  const int near_x = HasColumnContext(upsampling) ? x / 2 : x;
  const int side = odd_column ? near_x + 1 : near_x - 1;
  const int far_x = side < 0 ? 0 : (side < plane.width ? side : plane.width - 1);
  const int near_y = HasRowContext(upsampling) ? y / 2 : y;
  if (upsampling == ChromaUpsampling::kColumns) {
    return UpsampleColumn(plane.At(near_x, near_y), plane.At(far_x, near_y), odd_column);
  }
  if (!HasRowContext(upsampling)) return plane.At(near_x, near_y);
  const int far_y = FarChromaRow(y, plane.height);
  if (upsampling == ChromaUpsampling::kRows) {
    return UpsampleRow(plane.At(near_x, near_y), plane.At(near_x, far_y), y % 2 != 0);
  }
  return UpsampleBlendedColumn(BlendChromaRows(plane.At(near_x, near_y), plane.At(near_x, far_y)),
                               BlendChromaRows(plane.At(far_x, near_y), plane.At(far_x, far_y)),
                               odd_column);
}

}  // namespace endcap
