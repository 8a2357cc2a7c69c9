#include "decode/jpeg_markers.h"

#include <algorithm>
#include <cstring>

#include "common/fail.h"
#include "decode/byte_reader.h"

namespace endcap {
namespace {

constexpr size_t kJfifBytes = 14;  // of a JFIF segment; libjpeg-turbo skips a shorter one

bool IsFrame(uint8_t marker) {
  return marker >= kSof0 && marker <= kSof15 && marker != kDht && marker != kJpg && marker != kDac;
}

bool HasNoPayload(uint8_t marker) { return (marker >= kRst0 && marker <= kSoi) || marker == kTem; }

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

void ReadFrame(uint8_t marker, ByteReader segment, JpegMarkers& markers) {
  if (markers.frame_marker != 0) FailCorrupt("the JPEG has two frame headers");
  markers.frame_marker = marker;
  markers.precision = segment.Byte();
  markers.height = segment.Word();
  markers.width = segment.Word();
  markers.component_count = segment.Byte();
  const int readable = std::min(markers.component_count, 4);
  for (int i = 0; i < readable; ++i) {
    auto& component = markers.components[static_cast<size_t>(i)];
    component.id = segment.Byte();
    const uint8_t sampling = segment.Byte();
    component.horizontal_sampling = sampling >> 4;
    component.vertical_sampling = sampling & 15;
    segment.Skip(1);
    const auto bad = [](int factor) { return factor < 1 || factor > 4; };
    if (bad(component.horizontal_sampling) || bad(component.vertical_sampling)) {
      FailCorrupt("the JPEG's frame header has the sampling factors ",
                  component.horizontal_sampling, "x", component.vertical_sampling,
                  "; 1 to 4 are possible");
    }
  }
  if (segment.overrun()) FailCorrupt("the JPEG's frame header is cut short");
}

void ReadApplication(uint8_t marker, const ByteReader& segment, JpegMarkers& markers) {
  const uint8_t* payload = segment.here();
  const size_t size = segment.remaining();
  if (marker == kApp0 && size >= kJfifBytes && std::memcmp(payload, "JFIF", 5) == 0) {
    markers.has_jfif = true;
  } else if (marker == kApp14 && size >= 12 && std::memcmp(payload, "Adobe", 5) == 0) {
    markers.adobe_transform = payload[11];
  } else if (marker == kApp1 && markers.orientation == 1) {
    markers.orientation = ReadExifOrientation(payload, size);
  }
}

}  // namespace

JpegMarkers ReadMarkers(const uint8_t* bytes, size_t size) {
  JpegMarkers markers;
  ByteReader reader(bytes, size);
  reader.Skip(2);  // SOI
  for (;;) {
    const uint8_t marker = NextMarker(reader);
    if (marker == 0) FailCorrupt("the JPEG ends before its image data");
    if (marker == kEoi) FailCorrupt("the JPEG holds no image data");
    if (HasNoPayload(marker)) continue;
    const size_t start = reader.position();
    const size_t length = reader.Word();
    if (length < 2 || length - 2 > reader.remaining()) {
      FailCorrupt("the JPEG is cut short or damaged: the segment at byte ", start - 2, " claims ",
                  length, " bytes, ", size - start, " are left");
    }
    ByteReader segment(reader.here(), length - 2);
    if (marker == kSos) {
      if (markers.frame_marker == 0) FailCorrupt("the JPEG has image data before a frame header");
      markers.first_scan_components = segment.Byte();
      markers.scan_offset = start - 2;
      return markers;
    }
    if (IsFrame(marker)) ReadFrame(marker, segment, markers);
    if (marker >= kApp0 && marker <= kApp14) ReadApplication(marker, segment, markers);
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

namespace {

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

ScanSummary ReadScans(const uint8_t* bytes, size_t size, const JpegMarkers& markers,
                      int stop_after) noexcept {
  ScanSummary summary{.end = size};
  unsigned seen = 0;
  ByteReader reader(bytes, size);
  reader.Seek(markers.scan_offset);
  while (summary.count < stop_after) {
    const uint8_t marker = SkipToMarker(reader);
    if (marker == 0 || marker == kEoi) break;
    if (marker == kTem) continue;
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

}  // namespace endcap
