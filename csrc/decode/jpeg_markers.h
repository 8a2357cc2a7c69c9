#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "endcap/decode.h"

namespace endcap {

// Second bytes of JPEG markers. Source: ITU-T T.81, table B.1.
inline constexpr uint8_t kTem = 0x01;
inline constexpr uint8_t kSof0 = 0xC0;  // baseline
inline constexpr uint8_t kSof1 = 0xC1;  // extended sequential
inline constexpr uint8_t kSof2 = 0xC2;  // progressive
inline constexpr uint8_t kSof3 = 0xC3;  // lossless
inline constexpr uint8_t kDht = 0xC4;
inline constexpr uint8_t kJpg = 0xC8;
inline constexpr uint8_t kSof9 = 0xC9;  // from here on arithmetic-coded
inline constexpr uint8_t kDac = 0xCC;
inline constexpr uint8_t kSof15 = 0xCF;
inline constexpr uint8_t kRst0 = 0xD0;
inline constexpr uint8_t kRst7 = 0xD7;
inline constexpr uint8_t kSoi = 0xD8;
inline constexpr uint8_t kEoi = 0xD9;
inline constexpr uint8_t kSos = 0xDA;
inline constexpr uint8_t kApp0 = 0xE0;
inline constexpr uint8_t kApp1 = 0xE1;
inline constexpr uint8_t kApp14 = 0xEE;

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
