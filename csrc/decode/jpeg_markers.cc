#include "decode/jpeg_markers.h"

#include <algorithm>
#include <cstring>

#include "common/fail.h"
#include "decode/byte_reader.h"
#include "decode/exif.h"
#include "decode/jpeg_codes.h"

namespace endcap {
namespace {

constexpr size_t kJfifBytes = 14;  // of a JFIF segment; libjpeg-turbo passes over a shorter one

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
    markers.orientation = ExifOrientation(payload, size);
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

}  // namespace endcap
