#include <algorithm>
#include <cstring>

#include "decode/byte_reader.h"
#include "decode/jpeg_codes.h"
#include "decode/jpeg_markers.h"

namespace endcap {
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
