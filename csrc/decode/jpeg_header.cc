#include "common/fail.h"
#include "decode/file_formats.h"
#include "decode/jpeg_frame.h"
#include "decode/jpeg_markers.h"

// The header of a JPEG: its markers and their limits, before anything is allocated.

namespace endcap {
namespace {

// 8x8 blocks of all components: those that hold samples of the image, and those of whole MCUs.
struct BlockCounts {
  int64_t in_image = 0;
  int64_t in_mcus = 0;
};

BlockCounts CountBlocks(const JpegMarkers& markers) {
  const JpegFrame frame = MakeFrame(markers, kBlockSide);
  const int64_t mcus = int64_t{frame.mcus_per_row} * frame.mcu_rows;
  BlockCounts blocks;
  for (size_t i = 0; i < frame.component_count; ++i) {
    const JpegComponent& component = frame.components[i];
    blocks.in_image += int64_t{component.width_in_blocks} * component.height_in_blocks;
    blocks.in_mcus += mcus * component.h * component.v;
  }
  return blocks;
}

// Throws kImageLimit when the coefficients of a progressive or multi-scan file take more than
// max_coefficient_bytes: those of whole MCUs, DC apart, and 8 bytes for each block of the image,
// see CoefficientPlane.
void CheckCoefficientLimit(const JpegMarkers& markers, const DecodeLimits& limits) {
  constexpr int64_t kBlockBytes = 65 * sizeof(int16_t);
  if (!markers.has_several_scans()) return;
  const BlockCounts blocks = CountBlocks(markers);
  const int64_t bytes = blocks.in_mcus * kBlockBytes + blocks.in_image * int64_t{sizeof(uint64_t)};
  if (bytes > limits.max_coefficient_bytes) {
    Fail(ErrorCode::kImageLimit, "the JPEG is ",
         markers.progressive() ? "progressive" : "of several scans", ", and the coefficients of ",
         markers.width, "x", markers.height, " pixels take ", bytes,
         " bytes; max_coefficient_bytes allows ", limits.max_coefficient_bytes);
  }
}

// Throws kCorruptImage when the bytes left after the header cannot hold the claimed image: each 8x8
// block takes two bits at the least (one in a progressive file), since a Huffman code is never
// empty. So a short file cannot ask for a large allocation. Source: ITU-T T.81, F.1.2 and G.1.2.
void CheckEnoughData(const JpegMarkers& markers, size_t size_bytes) {
  const int64_t bits_per_block = markers.progressive() ? 1 : 2;
  const int64_t needed_bytes = CountBlocks(markers).in_image * bits_per_block / 8;
  const auto present_bytes = static_cast<int64_t>(size_bytes - markers.scan_offset);
  if (present_bytes < needed_bytes) {
    FailCorrupt("the JPEG is cut short: ", markers.width, "x", markers.height,
                " pixels take at least ", needed_bytes, " bytes of image data, ", present_bytes,
                " are there");
  }
}

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
ScanSummary CheckScans(const uint8_t* bytes, size_t size, const JpegMarkers& markers,
                       const DecodeLimits& limits) {
  if (!markers.has_several_scans()) return {.count = 1, .complete = true, .end = size};
  const ScanSummary scans = ReadScans(bytes, size, markers, limits.max_scans + 1);
  if (scans.segment_count > kMaxJpegSegments) FailTooManySegments();
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
  return scans;
}

}  // namespace

int64_t CountJpegBlocks(std::span<const uint8_t> file) noexcept {
  try {
    const JpegMarkers markers = ReadMarkers(file.data(), file.size());
    CheckKind(markers);
    return CountBlocks(markers).in_image;
  } catch (const Error&) {
    return 0;
  }
}

ImageHeader ReadJpegHeader(std::span<const uint8_t> file, const DecodeLimits& limits,
                           Damaged damaged) {
  const uint8_t* bytes = file.data();
  const size_t size = file.size();
  const JpegMarkers markers = ReadMarkers(bytes, size);
  CheckKind(markers);
  CheckSizeLimits(markers.width, markers.height, limits);
  if (damaged == Damaged::kReject) CheckEnoughData(markers, size);
  CheckCoefficientLimit(markers, limits);

  ImageHeader header;
  header.width = markers.width;
  header.height = markers.height;
  header.orientation = markers.orientation;
  header.color = DetectColor(markers);
  header.progressive = markers.progressive();
  const ScanSummary scans = CheckScans(bytes, size, markers, limits);
  header.scan_count = scans.count;
  header.lacks_component = !scans.complete;
  if (header.lacks_component && damaged == Damaged::kReject) {
    FailCorrupt("the JPEG is cut short: a color component has no scan");
  }
  return header;
}

}  // namespace endcap
