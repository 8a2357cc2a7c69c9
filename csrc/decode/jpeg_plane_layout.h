#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/chroma_upsampling.h"

namespace endcap {

// Where a plane's rows and the planes in a block of memory begin: multiples of these, so that wide
// loads are aligned where the block is.
inline constexpr size_t kPlaneRowAlignment = 16;
inline constexpr size_t kPlaneAlignment = 256;

// One plane, 8 bits a sample, in a block of memory.
struct JpegPlane {
  int width = 0;   // samples; the last one is what upsampling repeats beyond the border
  int height = 0;  // of the whole plane; the last row is what upsampling repeats beyond the border
  int rows = 0;    // the first so many are in the block, `height` of them unless end_row cut them
  // The bytes from `width` to the end of a row mean nothing, and those past the last whole block of
  // the file are never written; they may be read.
  size_t row_stride_bytes = 0;
  size_t offset_bytes = 0;  // of the first sample in the block
};

// What a JPEG decodes to before upsampling and color conversion.
struct JpegPlaneLayout {
  // False where only the library's own pixels will do (CMYK, RGB, 4:1:1, chroma too narrow for the
  // triangle filter): such a file is decoded by DecodeToBands, and no other field means anything.
  bool available = false;
  int width = 0;  // of the image at its DCT scale, pixels as stored
  int height = 0;
  ChromaUpsampling upsampling = ChromaUpsampling::kGray;
  int plane_count = 0;  // 1: Y; 3: Y, Cb, Cr
  std::array<JpegPlane, 3> planes{};
  size_t size_bytes = 0;  // of the block
};

}  // namespace endcap
