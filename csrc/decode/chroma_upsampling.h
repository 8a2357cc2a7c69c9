#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "decode/jpeg_plane_layout.h"

namespace endcap {

// libjpeg(-turbo)'s default ("fancy") chroma upsampling of one sample, once for host and device: a
// triangle filter, 3/4 of the sample that covers the pixel and 1/4 of the next one on the pixel's
// side; beyond the border the border's own. Roundings are those of jdsample.c: two neighbouring
// pixels round to different sides.

// The row beside row `y / 2` of the component that image row `y` takes its quarter from.
ENDCAP_HOST_DEVICE constexpr int FarChromaRow(int y, int chroma_height) {
  if (y % 2 == 0) return y < 2 ? 0 : y / 2 - 1;
  return y / 2 + 1 < chroma_height ? y / 2 + 1 : chroma_height - 1;
}

// Only the rows are subsampled.
ENDCAP_HOST_DEVICE constexpr int UpsampleRow(int near, int far, bool odd_row) {
  return (3 * near + far + (odd_row ? 2 : 1)) >> 2;
}

// Only the columns are subsampled.
ENDCAP_HOST_DEVICE constexpr int UpsampleColumn(int near, int far, bool odd_column) {
  return (3 * near + far + (odd_column ? 2 : 1)) >> 2;
}

// Both: rows first, as sums that are not rounded, then the columns of these.
ENDCAP_HOST_DEVICE constexpr int BlendChromaRows(int near, int far) { return 3 * near + far; }
ENDCAP_HOST_DEVICE constexpr int UpsampleBlendedColumn(int near, int far, bool odd_column) {
  return (3 * near + far + (odd_column ? 7 : 8)) >> 4;
}

// The chroma of pixel (x, y): `plane` has chroma_width x chroma_height samples.
ENDCAP_HOST_DEVICE inline int UpsampleChroma(ChromaUpsampling upsampling, const uint8_t* plane,
                                             int64_t row_stride, int chroma_width,
                                             int chroma_height, int x, int y) {
  const bool odd_column = x % 2 != 0;
  const int near_x = HasColumnContext(upsampling) ? x / 2 : x;
  const int side = odd_column ? near_x + 1 : near_x - 1;
  const int far_x = side < 0 ? 0 : (side < chroma_width ? side : chroma_width - 1);
  const uint8_t* row = plane + row_stride * (HasRowContext(upsampling) ? y / 2 : y);
  if (upsampling == ChromaUpsampling::kColumns) {
    return UpsampleColumn(row[near_x], row[far_x], odd_column);
  }
  if (!HasRowContext(upsampling)) return row[near_x];
  const uint8_t* far_row = plane + row_stride * FarChromaRow(y, chroma_height);
  if (upsampling == ChromaUpsampling::kRows) {
    return UpsampleRow(row[near_x], far_row[near_x], y % 2 != 0);
  }
  return UpsampleBlendedColumn(BlendChromaRows(row[near_x], far_row[near_x]),
                               BlendChromaRows(row[far_x], far_row[far_x]), odd_column);
}

}  // namespace endcap
