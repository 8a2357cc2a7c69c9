#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "common/chroma_upsampling.h"
#include "decode/jpeg_markers.h"

namespace endcap {

inline constexpr int kBlockSide = 8;

// A component of a file, and the plane that it decodes to.
struct JpegComponent {
  int h = 1;  // sampling factors
  int v = 1;
  size_t quantization = 0;  // index of its table
  int width_in_blocks = 0;  // the blocks that hold samples of the image
  int height_in_blocks = 0;
  int block_size = kBlockSide;  // samples of a block's side, in the plane
  int width = 0;                // samples of the plane
  int height = 0;

  // What decoding writes: whole MCUs.
  int rows_per_mcu() const noexcept { return v * block_size; }
};

// The frame of a file at the scale of its decoding.
struct JpegFrame {
  int width = 0;  // of the image at that scale
  int height = 0;
  JpegColor color = JpegColor::kYcbcr;
  bool progressive = false;
  int max_h = 1;
  int max_v = 1;
  int block_size = kBlockSide;  // of the components with the largest sampling factors
  int mcus_per_row = 0;         // where a scan has several components
  int mcu_rows = 0;
  size_t component_count = 0;
  std::array<JpegComponent, kMaxJpegComponents> components{};

  // Rows and columns of the image that an MCU covers.
  int rows_per_mcu() const noexcept { return max_v * block_size; }
  int columns_per_mcu() const noexcept { return max_h * block_size; }
  // Samples that a row of a component takes: whole MCUs.
  int padded_width(const JpegComponent& component) const noexcept {
    return mcus_per_row * component.h * component.block_size;
  }
};

// The frame of a header, whose sizes were checked, at that many eighths of its size, 1 to 8. As
// libjpeg-turbo does, the blocks of subsampled components get twice or four times as many samples a
// side where that saves upsampling.
JpegFrame MakeFrame(const JpegMarkers& markers, int eighths) noexcept;

// How a plane gets the image's size.
struct PlaneUpsampling {
  int columns = 1;  // of the image for each sample
  int rows = 1;
  // With libjpeg-turbo's triangle filter; else samples are repeated.
  bool blends_columns = false;
  bool blends_rows = false;

  bool operator==(const PlaneUpsampling&) const = default;
};

// That of libjpeg-turbo; nothing where it has none, because the image's size is not a multiple.
std::optional<PlaneUpsampling> GetPlaneUpsampling(const JpegFrame& frame,
                                                  size_t component) noexcept;

// The upsampling of both planes of chroma. Nothing for other colors, and where luma does not have
// the image's size or chroma is repeated.
std::optional<ChromaUpsampling> GetUpsampling(const JpegFrame& frame) noexcept;

// Whether the first component is the image's luma at full size, so that it alone is the gray image.
bool HasFullLuma(const JpegFrame& frame) noexcept;

}  // namespace endcap
