#include <algorithm>

#include "common/fail.h"
#include "decode/jpeg_codes.h"
#include "decode/jpeg_markers.h"
#include "decode/limits.h"
#include "decode/sniff.h"
#include "endcap/decode.h"

namespace endcap {
namespace {

void CheckKind(const JpegMarkers& markers) {
  const uint8_t frame = markers.frame_marker;
  if (frame != kSof0 && frame != kSof1 && frame != kSof2) {
    const char* kind = frame >= kSof9   ? "arithmetic-coded"
                       : frame == kSof3 ? "lossless"
                                        : "hierarchical";
    Fail(ErrorCode::kUnsupported, "the JPEG is ", kind,
         "; baseline, extended sequential and progressive Huffman files can be decoded");
  }
  if (markers.precision != 8) {
    Fail(ErrorCode::kUnsupported, "the JPEG has ", markers.precision,
         " bits per sample; 8 can be decoded");
  }
  if (markers.width == 0 || markers.height == 0) {
    FailCorrupt("the JPEG claims ", markers.width, "x", markers.height,
                " pixels; both sides must be at least 1");
  }
  const int count = markers.component_count;
  if (count != 1 && count != 3 && count != 4) {
    Fail(ErrorCode::kUnsupported, "the JPEG has ", count,
         " components; 1 (gray), 3 (color) and 4 (CMYK) can be decoded");
  }
}

// The rest of the file is looked at only where it holds other scans.
int ReadScanCount(const uint8_t* bytes, size_t size, const JpegMarkers& markers,
                  const DecodeLimits& limits) {
  if (!markers.has_several_scans()) return 1;
  const ScanSummary scans = ReadScans(bytes, size, markers, limits.max_scans + 1);
  if (scans.count > limits.max_scans) {
    Fail(ErrorCode::kImageLimit, "the JPEG has more than ", limits.max_scans,
         " scans, which is what max_scans allows");
  }
  const int64_t work = int64_t{scans.count} * markers.width * markers.height;
  if (work > DecodeLimits::kMaxScanWork * limits.max_pixels) {
    Fail(ErrorCode::kImageLimit, "the JPEG has ", scans.count, " scans of ", markers.width, "x",
         markers.height, " pixels; max_pixels allows ",
         DecodeLimits::kMaxScanWork * limits.max_pixels, " in all scans together");
  }
  if (!scans.complete) FailCorrupt("the JPEG is cut short: a color component has no scan");
  return scans.count;
}

}  // namespace

ImageHeader ReadHeader(const ImageView& image, const DecodeLimits& limits) {
  const uint8_t* bytes = image.planes[0].data;
  const size_t size = image.size_bytes;
  if (image.format != PixelFormat::kEncoded) FailArgument("the image holds pixels, not a file");
  if (image.device != Device::kCpu) {
    Fail(ErrorCode::kUnsupported, "the file is in GPU memory; this build reads CPU memory only");
  }
  if (bytes == nullptr || size == 0) FailCorrupt("the image is empty (0 bytes)");
  if (!IsJpeg(bytes, size)) {
    FailCorrupt("the data is not a JPEG: it is ", DescribeFormat(bytes, size), " (", size,
                " bytes)");
  }
  CheckByteLimit(size, limits);
  const JpegMarkers markers = ReadMarkers(bytes, size);
  CheckKind(markers);
  CheckSizeLimits(markers.width, markers.height, limits);
  CheckEnoughData(markers, size);
  CheckCoefficientLimit(markers, limits);

  ImageHeader header;
  header.width = markers.width;
  header.height = markers.height;
  header.orientation = markers.orientation;
  header.color = DetectColor(markers);
  header.progressive = markers.progressive();
  header.scan_count = ReadScanCount(bytes, size, markers, limits);
  return header;
}

}  // namespace endcap
