#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "decode/byte_reader.h"
#include "decode/jpeg_tables.h"
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
inline constexpr uint8_t kDqt = 0xDB;
inline constexpr uint8_t kDnl = 0xDC;
inline constexpr uint8_t kDri = 0xDD;
inline constexpr uint8_t kApp0 = 0xE0;
inline constexpr uint8_t kApp1 = 0xE1;
inline constexpr uint8_t kApp14 = 0xEE;
inline constexpr uint8_t kApp15 = 0xEF;
inline constexpr uint8_t kCom = 0xFE;

inline constexpr size_t kMaxJpegComponents = 4;
// The most blocks of an MCU where a scan has several components. Source: ITU-T T.81, B.2.3.
inline constexpr size_t kMaxBlocksPerMcu = 10;

// Before the first scan, and from there on; reading more takes longer than a small image's pixels.
// An ICC profile has 255 segments at most, and 100 MB of XMP have 1,600.
inline constexpr int kMaxJpegSegments = 1 << 14;
[[noreturn]] void FailTooManySegments();

// A scan's header (SOS). Source: ITU-T T.81, B.2.3.
struct ScanHeader {
  struct Component {
    size_t index = 0;     // in the frame header
    size_t dc_table = 0;  // below JpegTables::kCount
    size_t ac_table = 0;
  };

  size_t component_count = 0;
  std::array<Component, kMaxJpegComponents> components{};
  // Of a progressive file: the coefficients in zigzag order, and the bits of them.
  int first = 0;
  int last = 63;
  int high = 0;  // the lowest bit that earlier scans brought; 0: none did
  int low = 0;

  // Whether it has the coefficients as a whole, as in a sequential file.
  bool is_whole() const noexcept { return first == 0 && last == 63 && high == 0 && low == 0; }
};

// The frame header (SOFn) of a JPEG and what its other segments say, as found.
struct JpegMarkers {
  struct Component {
    uint8_t id = 0;
    int horizontal_sampling = 1;
    int vertical_sampling = 1;
    size_t quantization = 0;  // index of its table
  };

  uint8_t frame_marker = 0;  // 0xC0 to 0xCF
  int precision = 0;         // bits
  int width = 0;
  int height = 0;
  int component_count = 0;
  std::array<Component, kMaxJpegComponents> components{};
  bool has_jfif = false;
  int adobe_transform = -1;  // -1: no Adobe segment
  int orientation = 1;
  int first_scan_components = 0;
  size_t scan_offset = 0;  // of the first SOS marker
  size_t data_offset = 0;  // of the first scan's data
  JpegTables tables;       // of the first scan
  // Nothing where a segment is not what the standard has there: libjpeg-turbo knows what to make of
  // that, and of some files decodes the rest.
  std::optional<ScanHeader> first_scan;

  bool progressive() const noexcept { return frame_marker == kSof2; }
  // Whether libjpeg keeps the coefficients of the whole image. A sequential file whose first scan
  // holds all components has no other.
  bool has_several_scans() const noexcept {
    return progressive() || first_scan_components != component_count;
  }
};

// Reads the segments up to the first scan. Allocates nothing. Throws kCorruptImage and kImageLimit.
// Source: ITU-T T.81, B.1.1 and B.2.
JpegMarkers ReadMarkers(const uint8_t* bytes, size_t size);

// The scans of a file, from its first to its end marker.
struct ScanSummary {
  int count = 0;
  int segment_count = 0;
  bool complete = false;  // every component has a scan; in a progressive file, its first DC scan
  size_t end = 0;         // of the file; the marker of a segment that it ends in
};

// Counts the scans, whatever the segments between them are; gives up after `stop_after` scans
// or more than kMaxJpegSegments segments. Allocates nothing. Source: ITU-T T.81, B.2.3 and G.1.1.
ScanSummary ReadScans(const uint8_t* bytes, size_t size, const JpegMarkers& markers,
                      int stop_after) noexcept;

// Whether a scan can be decoded: its tables are defined and valid, and its components fit an MCU.
bool CanDecodeScan(const ScanHeader& scan, const JpegTables& tables,
                   const JpegMarkers& markers) noexcept;

// Goes through the scans of a file, with the tables that hold for each. Allocates nothing.
class ScanIterator {
 public:
  // kIrregular: the file ends, or a segment is not what the standard has there.
  enum class Step { kScan, kEndMarker, kIrregular };

  // At the first scan, which the markers must have.
  ScanIterator(std::span<const uint8_t> file, const JpegMarkers& markers) noexcept
      : file_(file),
        markers_(markers),
        tables_(markers.tables),
        scan_(markers.first_scan.value_or(ScanHeader{})),
        data_offset_(markers.data_offset) {}

  const ScanHeader& scan() const noexcept { return scan_; }
  const JpegTables& tables() const noexcept { return tables_; }
  // What follows the scan's header, to the end of the file.
  std::span<const uint8_t> data() const noexcept { return file_.subspan(data_offset_); }

  Step Next() noexcept;

 private:
  std::span<const uint8_t> file_;
  const JpegMarkers& markers_;
  JpegTables tables_;
  ScanHeader scan_;
  size_t data_offset_ = 0;
};

// How libjpeg reads the components: by JFIF and Adobe segments first, then by component ids.
JpegColor DetectColor(const JpegMarkers& markers) noexcept;

}  // namespace endcap
