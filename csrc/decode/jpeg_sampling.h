#pragma once

#include <optional>

#include "decode/jpeg_plane_layout.h"
#include "decode/libjpeg_session.h"

namespace endcap {

// How the components of a file are sampled, for a session whose output size is settled.

// The upsampling that libjpeg-turbo would do itself. Nothing where endcap cannot do the same: other
// colors and samplings, and planes that are too small for the library's filter.
std::optional<ChromaUpsampling> GetUpsampling(const jpeg_decompress_struct& info);

// Whether the first component is the image's luma at full size, so that it alone is the gray image.
bool HasFullLuma(const jpeg_decompress_struct& info);

// What the decoder writes of one component.
struct PlaneSize {
  int width = 0;  // samples of the component
  int height = 0;
  int padded_width = 0;  // samples that a row takes: whole MCUs
  int mcu_rows = 0;      // rows that one row of MCUs gives
};

PlaneSize GetPlaneSize(const jpeg_decompress_struct& info, int component);

// Image rows that one row of MCUs gives.
inline int ImageRowsPerMcu(const jpeg_decompress_struct& info) {
  return info.max_v_samp_factor * MinScaledBlockSize(info);
}

}  // namespace endcap
