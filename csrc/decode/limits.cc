#include "decode/limits.h"

#include <algorithm>

#include "common/fail.h"

namespace endcap {
namespace {

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// 8x8 blocks of all components: those that hold samples of the image, and those of whole MCUs.
struct BlockCounts {
  int64_t in_image = 0;
  int64_t in_mcus = 0;
};

BlockCounts CountBlocks(const JpegMarkers& markers) {
  int max_h = 1;
  int max_v = 1;
  for (int i = 0; i < markers.component_count; ++i) {
    max_h = std::max(max_h, markers.components[static_cast<size_t>(i)].horizontal_sampling);
    max_v = std::max(max_v, markers.components[static_cast<size_t>(i)].vertical_sampling);
  }
  const int64_t mcus = CeilDivide(markers.width, int64_t{8} * max_h) *
                       CeilDivide(markers.height, int64_t{8} * max_v);
  BlockCounts blocks;
  for (int i = 0; i < markers.component_count; ++i) {
    const auto& component = markers.components[static_cast<size_t>(i)];
    const int64_t width = CeilDivide(int64_t{markers.width} * component.horizontal_sampling, max_h);
    const int64_t height = CeilDivide(int64_t{markers.height} * component.vertical_sampling, max_v);
    blocks.in_image += CeilDivide(width, 8) * CeilDivide(height, 8);
    blocks.in_mcus += mcus * component.horizontal_sampling * component.vertical_sampling;
  }
  return blocks;
}

}  // namespace

void CheckByteLimit(size_t size_bytes, const DecodeLimits& limits) {
  if (size_bytes > static_cast<size_t>(limits.max_bytes)) {
    Fail(ErrorCode::kImageLimit, "the image has ", size_bytes, " bytes; max_bytes allows ",
         limits.max_bytes);
  }
}

void CheckSizeLimits(int width, int height, const DecodeLimits& limits) {
  if (std::max(width, height) > limits.max_side) {
    Fail(ErrorCode::kImageLimit, "the image is ", width, "x", height, " pixels; max_side allows ",
         limits.max_side, " a side");
  }
  const int64_t pixels = int64_t{width} * height;
  if (pixels > limits.max_pixels) {
    Fail(ErrorCode::kImageLimit, "the image is ", width, "x", height, " = ", pixels,
         " pixels; max_pixels allows ", limits.max_pixels);
  }
}

void CheckCoefficientLimit(const JpegMarkers& markers, const DecodeLimits& limits) {
  constexpr int64_t kBlockBytes = 64 * sizeof(int16_t);
  if (!markers.has_several_scans()) return;
  const BlockCounts blocks = CountBlocks(markers);
  int64_t bytes = blocks.in_mcus * kBlockBytes;
  if (markers.progressive()) bytes += blocks.in_image * int64_t{sizeof(uint64_t)};
  if (bytes > limits.max_coefficient_bytes) {
    Fail(ErrorCode::kImageLimit, "the JPEG is ",
         markers.progressive() ? "progressive" : "of several scans", ", and the coefficients of ",
         markers.width, "x", markers.height, " pixels take ", bytes,
         " bytes; max_coefficient_bytes allows ", limits.max_coefficient_bytes);
  }
}

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

}  // namespace endcap
