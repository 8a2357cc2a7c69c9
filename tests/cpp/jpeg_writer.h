#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "endcap/image_view.h"

namespace endcap::testing {

using Bytes = std::vector<uint8_t>;

// A picture with shading and edges: height * width * channels values, interleaved.
Bytes MakePixels(int height, int width, int channels);

struct JpegOptions {
  int quality = 90;
  bool progressive = false;
  bool bit_by_bit = false;      // progressive, each scan a bit of few coefficients; 1 or 3 channels
  bool separate_scans = false;  // sequential, one scan for each component
  int orientation = 0;          // 0: no EXIF segment
  int luma_columns = 2;         // samples of luma for each of chroma; color only
  int luma_rows = 2;
  int restart_rows = 0;    // rows of MCUs between restart markers; 0: none
  int restart_mcus = 0;    // or MCUs
  bool optimized = false;  // Huffman tables of the file's own
  bool as_rgb = false;     // color: RGB is stored
  bool as_ycck = false;    // of four channels: YCbCr of the inks, and black
  // Columns and rows of samples of each component; empty: as above.
  std::vector<std::array<int, 2>> sampling = {};
};

// Encodes interleaved pixels: 1 channel gray, 3 RGB, 4 CMYK as Adobe stores it (255: no ink).
Bytes WriteJpeg(const Bytes& pixels, int height, int width, int channels,
                const JpegOptions& options = {});

// MakePixels and WriteJpeg in one.
Bytes MakeJpeg(int height, int width, int channels = 3, const JpegOptions& options = {});

// The file with another size in its frame header.
Bytes WithSize(Bytes jpeg, int height, int width);

// Position of the first frame header's marker (0xFF 0xC0 to 0xC2).
size_t FindFrame(const Bytes& jpeg);

inline ImageView Encoded(const Bytes& file) { return ImageView::Encoded(file.data(), file.size()); }

}  // namespace endcap::testing
