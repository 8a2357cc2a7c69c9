#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "decode/jpeg_codes.h"
#include "endcap/decode.h"

namespace endcap {

// The frame header (SOFn) of a JPEG and what its other segments say, as found.
struct JpegMarkers {
  struct Component {
    uint8_t id = 0;
    int horizontal_sampling = 1;
    int vertical_sampling = 1;
  };

  uint8_t frame_marker = 0;  // 0xC0 to 0xCF
  int precision = 0;         // bits
  int width = 0;
  int height = 0;
  int component_count = 0;
  std::array<Component, 4> components{};
  bool has_jfif = false;
  int adobe_transform = -1;  // -1: no Adobe segment
  int orientation = 1;
  int first_scan_components = 0;
  size_t scan_offset = 0;  // of the first SOS marker

  bool progressive() const noexcept { return frame_marker == kSof2; }
  // Whether libjpeg keeps the coefficients of the whole image. A sequential file whose first scan
  // holds all components has no other.
  bool has_several_scans() const noexcept {
    return progressive() || first_scan_components != component_count;
  }
};

// Walks the segments up to the first scan. Allocates nothing. Throws kCorruptImage.
// Source: ITU-T T.81, B.1.1 and B.2.
JpegMarkers ReadMarkers(const uint8_t* bytes, size_t size);

// The scans of a file, from its first to its end marker.
struct ScanSummary {
  int count = 0;
  bool complete = false;  // every component has a scan; in a progressive file, its first DC scan
  size_t end = 0;         // of the file; the marker of a segment that it ends in
};

// Walks the scans and the segments between them; gives up after `stop_after` scans. Allocates
// nothing. Source: ITU-T T.81, B.2.3 and G.1.1.
ScanSummary ReadScans(const uint8_t* bytes, size_t size, const JpegMarkers& markers,
                      int stop_after) noexcept;

// How libjpeg reads the components: by JFIF and Adobe segments first, then by component ids.
JpegColor DetectColor(const JpegMarkers& markers) noexcept;

}  // namespace endcap
