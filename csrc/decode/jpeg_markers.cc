#include "decode/jpeg_markers.h"

#include <algorithm>
#include <cstring>

#include "common/fail.h"

namespace endcap {
namespace {

constexpr size_t kJfifBytes = 14;  // of a JFIF segment; libjpeg-turbo skips a shorter one

bool IsFrame(uint8_t marker) {
  return marker >= kSof0 && marker <= kSof15 && marker != kDht && marker != kJpg && marker != kDac;
}

bool HasNoPayload(uint8_t marker) { return (marker >= kRst0 && marker <= kSoi) || marker == kTem; }

bool IsTable(uint8_t marker) { return marker == kDqt || marker == kDht || marker == kDri; }

// Whether libjpeg-turbo skips such a segment, or reads of it what no pixel depends on.
bool IsSkipped(uint8_t marker) {
  return (marker >= kApp0 && marker <= kApp15) || marker == kCom || marker == kDnl;
}

// Skips to the byte after the next 0xFF xx with xx a marker code, and returns xx; 0 at the end.
uint8_t NextMarker(ByteReader& reader) {
  while (reader.remaining() >= 2) {
    if (reader.Byte() != 0xFF) continue;
    uint8_t code = 0xFF;
    while (code == 0xFF && reader.remaining() > 0) code = reader.Byte();
    if (code != 0 && code != 0xFF) return code;
  }
  return 0;
}

// Returns whether the frame header is what the standard has.
bool ReadFrame(uint8_t marker, ByteReader segment, JpegMarkers& markers) {
  if (markers.frame_marker != 0) FailCorrupt("the JPEG has two frame headers");
  markers.frame_marker = marker;
  markers.precision = segment.Byte();
  markers.height = segment.Word();
  markers.width = segment.Word();
  markers.component_count = segment.Byte();
  const auto count = static_cast<size_t>(markers.component_count);
  // libjpeg-turbo has an error for larger sides.
  constexpr int kMaxSide = 65500;
  bool regular =
      segment.remaining() == 3 * count && markers.width <= kMaxSide && markers.height <= kMaxSide;
  for (size_t i = 0; i < std::min(count, kMaxJpegComponents); ++i) {
    auto& component = markers.components[i];
    component.id = segment.Byte();
    const uint8_t sampling = segment.Byte();
    component.horizontal_sampling = sampling >> 4;
    component.vertical_sampling = sampling & 15;
    component.quantization = segment.Byte();
    regular = regular && component.quantization < JpegTables::kCount;
    for (size_t k = 0; k < i; ++k) {
      regular = regular && markers.components[k].id != component.id;
    }
    const auto bad = [](int factor) { return factor < 1 || factor > 4; };
    if (bad(component.horizontal_sampling) || bad(component.vertical_sampling)) {
      FailCorrupt("the JPEG's frame header has the sampling factors ",
                  component.horizontal_sampling, "x", component.vertical_sampling,
                  "; 1 to 4 are possible");
    }
  }
  if (segment.overrun()) FailCorrupt("the JPEG's frame header is cut short");
  return regular;
}

// Nothing where the header is not what the standard has.
std::optional<ScanHeader> ReadScanHeader(ByteReader segment, const JpegMarkers& markers) noexcept {
  ScanHeader scan;
  scan.component_count = segment.Byte();
  const bool has_size = segment.remaining() == 2 * scan.component_count + 3;
  if (scan.component_count == 0 || scan.component_count > kMaxJpegComponents || !has_size) {
    return std::nullopt;
  }
  // In the order of the frame header; libjpeg-turbo has an error for some others.
  const size_t frame_count =
      std::min(static_cast<size_t>(markers.component_count), kMaxJpegComponents);
  size_t index = 0;
  for (size_t i = 0; i < scan.component_count; ++i, ++index) {
    const uint8_t id = segment.Byte();
    while (index < frame_count && markers.components[index].id != id) ++index;
    if (index >= frame_count) return std::nullopt;
    const uint8_t tables = segment.Byte();
    scan.components[i] = {index, size_t{tables} >> 4, tables & size_t{15}};
    if (scan.components[i].dc_table >= JpegTables::kCount ||
        scan.components[i].ac_table >= JpegTables::kCount) {
      return std::nullopt;
    }
  }
  scan.first = segment.Byte();
  scan.last = segment.Byte();
  const uint8_t bits = segment.Byte();
  scan.high = bits >> 4;
  scan.low = bits & 15;
  return scan;
}

// The payloads of a file's Exif segments, the later ones without their prefix.
class ExifSegments {
 public:
  void Add(std::span<const uint8_t> payload) noexcept {
    constexpr std::array<uint8_t, 6> kPrefix = {'E', 'x', 'i', 'f', 0, 0};
    if (count_ == parts_.size() || payload.size() < kPrefix.size()) return;
    if (!std::ranges::equal(payload.first(kPrefix.size()), kPrefix)) return;
    parts_[count_] = count_ == 0 ? payload : payload.subspan(kPrefix.size());
    ++count_;
  }
  int ReadOrientation() const noexcept {
    return ReadExifOrientation(std::span(parts_).first(count_));
  }

 private:
  std::array<std::span<const uint8_t>, 16> parts_;
  size_t count_ = 0;
};

void ReadApplication(uint8_t marker, const ByteReader& segment, ExifSegments& exif,
                     JpegMarkers& markers) {
  const uint8_t* payload = segment.here();
  const size_t size = segment.remaining();
  if (marker == kApp0 && size >= kJfifBytes && std::memcmp(payload, "JFIF", 5) == 0) {
    markers.has_jfif = true;
  } else if (marker == kApp14 && size >= 12 && std::memcmp(payload, "Adobe", 5) == 0) {
    markers.adobe_transform = payload[11];
  } else if (marker == kApp1) {
    exif.Add({payload, size});
  }
}

// Skips entropy-coded data up to the marker that ends it, and returns that marker; 0 at the end of
// the file. A zero byte after 0xFF is data, and restart markers belong to the data.
uint8_t SkipToMarker(ByteReader& reader) noexcept {
  while (reader.remaining() >= 2) {
    const void* found = std::memchr(reader.here(), 0xFF, reader.remaining() - 1);
    if (found == nullptr) return 0;
    reader.Skip(static_cast<size_t>(static_cast<const uint8_t*>(found) - reader.here()) + 1);
    const uint8_t code = *reader.here();
    if (code == 0xFF) continue;
    reader.Skip(1);
    if (code != 0 && (code < kRst0 || code > kRst7)) return code;
  }
  return 0;
}

// One bit for each component of the frame that takes part in a scan. In a progressive file only
// scans that begin the DC coefficients count.
unsigned ScanComponents(ByteReader segment, const JpegMarkers& markers) noexcept {
  unsigned found = 0;
  const int count = segment.Byte();
  for (int i = 0; i < count; ++i) {
    const uint8_t id = segment.Byte();
    segment.Skip(1);
    for (int c = 0; c < markers.component_count; ++c) {
      if (markers.components[static_cast<size_t>(c)].id == id) found |= 1U << c;
    }
  }
  const uint8_t spectral_start = segment.Byte();
  segment.Skip(1);
  const int bits_before = segment.Byte() >> 4;
  const bool begins = !markers.progressive() || (spectral_start == 0 && bits_before == 0);
  return begins ? found : 0;
}

}  // namespace

void FailTooManySegments() {
  Fail(ErrorCode::kImageLimit, "the JPEG has more than ", kMaxJpegSegments,
       " marker segments; write the image again without its metadata");
}

JpegMarkers ReadMarkers(const uint8_t* bytes, size_t size) {
  JpegMarkers markers;
  ExifSegments exif;
  bool regular = true;
  ByteReader reader(bytes, size);
  reader.Skip(2);  // SOI
  for (int count = 0;; ++count) {
    if (count > kMaxJpegSegments) FailTooManySegments();
    const uint8_t marker = NextMarker(reader);
    if (marker == 0) FailCorrupt("the JPEG ends before its image data");
    if (marker == kEoi) FailCorrupt("the JPEG holds no image data");
    if (HasNoPayload(marker)) {
      regular = regular && marker != kSoi;
      continue;
    }
    const size_t start = reader.position();
    const size_t length = reader.Word();
    if (length < 2 || length - 2 > reader.remaining()) {
      FailCorrupt("the JPEG is cut short or damaged: the segment at byte ", start - 2, " claims ",
                  length, " bytes, ", size - start, " are left");
    }
    ByteReader segment(reader.here(), length - 2);
    if (marker == kSos) {
      if (markers.frame_marker == 0) FailCorrupt("the JPEG has image data before a frame header");
      if (regular) markers.first_scan = ReadScanHeader(segment, markers);
      markers.first_scan_components = segment.Byte();
      markers.scan_offset = start - 2;
      markers.data_offset = start + length;
      markers.orientation = exif.ReadOrientation();
      return markers;
    }
    if (IsFrame(marker)) {
      regular = ReadFrame(marker, segment, markers) && regular;
    } else if (IsTable(marker)) {
      regular = ReadTables(marker, segment, markers.tables) && regular;
    } else {
      regular = regular && IsSkipped(marker);
    }
    if (marker >= kApp0 && marker <= kApp14) ReadApplication(marker, segment, exif, markers);
    reader.Skip(length - 2);
  }
}

JpegColor DetectColor(const JpegMarkers& markers) noexcept {
  if (markers.component_count == 1) return JpegColor::kGray;
  if (markers.component_count == 4) {
    // An unknown transform is taken for YCCK, as libjpeg-turbo takes it.
    return markers.adobe_transform > 0 ? JpegColor::kYcck : JpegColor::kCmyk;
  }
  if (markers.has_jfif) return JpegColor::kYcbcr;
  if (markers.adobe_transform >= 0) {
    return markers.adobe_transform == 0 ? JpegColor::kRgb : JpegColor::kYcbcr;
  }
  const auto& parts = markers.components;
  const bool named_rgb = parts[0].id == 'R' && parts[1].id == 'G' && parts[2].id == 'B';
  return named_rgb ? JpegColor::kRgb : JpegColor::kYcbcr;
}

ScanSummary ReadScans(const uint8_t* bytes, size_t size, const JpegMarkers& markers,
                      int stop_after) noexcept {
  ScanSummary summary{.end = size};
  unsigned seen = 0;
  ByteReader reader(bytes, size);
  reader.Seek(markers.scan_offset);
  while (summary.count < stop_after && summary.segment_count <= kMaxJpegSegments) {
    ++summary.segment_count;
    const uint8_t marker = SkipToMarker(reader);
    if (marker == 0 || marker == kEoi) break;
    // Without a segment, or skipped by libjpeg-turbo where it looks for a restart marker.
    if (marker < kSof0) continue;
    const size_t start = reader.position() - 2;
    // As libjpeg-turbo reads it, a length that does not cover itself is that of an empty segment.
    const size_t length = std::max<size_t>(reader.Word(), 2);
    if (reader.overrun() || length - 2 > reader.remaining()) {
      summary.end = start;
      break;
    }
    if (marker == kSos) {
      ++summary.count;
      seen |= ScanComponents(ByteReader(reader.here(), length - 2), markers);
    }
    reader.Skip(length - 2);
  }
  summary.complete = seen == (1U << markers.component_count) - 1U;
  return summary;
}

bool CanDecodeScan(const ScanHeader& scan, const JpegTables& tables,
                   const JpegMarkers& markers) noexcept {
  const bool needs_dc = !markers.progressive() || (scan.first == 0 && scan.high == 0);
  const bool needs_ac = !markers.progressive() || scan.first > 0;
  size_t blocks = 0;
  for (size_t i = 0; i < scan.component_count; ++i) {
    const ScanHeader::Component& in_scan = scan.components[i];
    const JpegTables::Huffman& dc = tables.dc[in_scan.dc_table];
    const JpegTables::Huffman& ac = tables.ac[in_scan.ac_table];
    const JpegMarkers::Component& component = markers.components[in_scan.index];
    if (needs_dc && !(dc.defined && dc.codes.IsValid(true))) return false;
    if (needs_ac && !(ac.defined && ac.codes.IsValid(false))) return false;
    if (!tables.quantization[component.quantization].defined) return false;
    blocks += static_cast<size_t>(component.horizontal_sampling * component.vertical_sampling);
  }
  return scan.component_count == 1 || blocks <= kMaxBlocksPerMcu;
}

ScanIterator::Step ScanIterator::Next() noexcept {
  ByteReader reader(file_.data(), file_.size());
  reader.Seek(data_offset_);
  for (;;) {
    const uint8_t marker = SkipToMarker(reader);
    if (marker == kEoi) return Step::kEndMarker;
    if (marker == kTem) continue;
    const size_t length = reader.Word();
    if (marker == 0 || reader.overrun() || length < 2 || length - 2 > reader.remaining()) {
      return Step::kIrregular;
    }
    const ByteReader segment(reader.here(), length - 2);
    reader.Skip(length - 2);
    if (marker == kSos) {
      const std::optional<ScanHeader> scan = ReadScanHeader(segment, markers_);
      if (!scan) return Step::kIrregular;
      scan_ = *scan;
      data_offset_ = reader.position();
      return Step::kScan;
    }
    const bool regular = IsTable(marker) ? ReadTables(marker, segment, tables_) : IsSkipped(marker);
    if (!regular) return Step::kIrregular;
  }
}

}  // namespace endcap
