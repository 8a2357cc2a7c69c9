#include "decode/jpeg_frame.h"

#include <algorithm>

namespace endcap {
namespace {

int CeilDivide(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

// Doubled while it fits the largest sampling factors' blocks in both directions.
int ComponentBlockSize(const JpegFrame& frame, const JpegComponent& component) {
  int size = frame.block_size;
  while (size < kBlockSide && frame.columns_per_mcu() % (component.h * size * 2) == 0 &&
         frame.rows_per_mcu() % (component.v * size * 2) == 0) {
    size *= 2;
  }
  return size;
}

// Samples of a component in each direction, of max_h and max_v at full size.
struct Sampling {
  int h = 0;
  int v = 0;
  bool operator==(const Sampling&) const = default;
};

Sampling GetSampling(const JpegFrame& frame, size_t index) {
  const JpegComponent& component = frame.components[index];
  return {component.h * component.block_size / frame.block_size,
          component.v * component.block_size / frame.block_size};
}

}  // namespace

JpegFrame MakeFrame(const JpegMarkers& markers, int scale_denominator) noexcept {
  JpegFrame frame;
  frame.color = DetectColor(markers);
  frame.progressive = markers.progressive();
  frame.block_size = kBlockSide / scale_denominator;
  frame.width = CeilDivide(markers.width, scale_denominator);
  frame.height = CeilDivide(markers.height, scale_denominator);
  frame.component_count = static_cast<size_t>(markers.component_count);
  for (size_t i = 0; i < frame.component_count; ++i) {
    frame.max_h = std::max(frame.max_h, markers.components[i].horizontal_sampling);
    frame.max_v = std::max(frame.max_v, markers.components[i].vertical_sampling);
  }
  frame.mcus_per_row = CeilDivide(markers.width, int64_t{kBlockSide} * frame.max_h);
  frame.mcu_rows = CeilDivide(markers.height, int64_t{kBlockSide} * frame.max_v);
  for (size_t i = 0; i < frame.component_count; ++i) {
    JpegComponent& component = frame.components[i];
    component.h = markers.components[i].horizontal_sampling;
    component.v = markers.components[i].vertical_sampling;
    component.quantization = markers.components[i].quantization;
    component.block_size = ComponentBlockSize(frame, component);
    const int64_t h = int64_t{markers.width} * component.h;
    const int64_t v = int64_t{markers.height} * component.v;
    const int64_t full_width = int64_t{frame.max_h} * kBlockSide;
    const int64_t full_height = int64_t{frame.max_v} * kBlockSide;
    component.width_in_blocks = CeilDivide(h, full_width);
    component.height_in_blocks = CeilDivide(v, full_height);
    component.width = CeilDivide(h * component.block_size, full_width);
    component.height = CeilDivide(v * component.block_size, full_height);
  }
  return frame;
}

std::optional<ChromaUpsampling> GetUpsampling(const JpegFrame& frame) noexcept {
  if (frame.color == JpegColor::kGray) return ChromaUpsampling::kGray;
  if (frame.color != JpegColor::kYcbcr || frame.component_count != 3) return std::nullopt;
  const Sampling full{frame.max_h, frame.max_v};
  const Sampling chroma = GetSampling(frame, 1);
  if (GetSampling(frame, 0) != full || GetSampling(frame, 2) != chroma) return std::nullopt;
  if (chroma == full) return ChromaUpsampling::kNone;
  const bool columns = chroma.h * 2 == full.h;
  const bool rows = chroma.v * 2 == full.v;
  if ((!columns && chroma.h != full.h) || (!rows && chroma.v != full.v)) return std::nullopt;
  // Where the library takes the nearest sample instead of its filter.
  if (frame.block_size == 1) return std::nullopt;
  if (columns && frame.components[1].width <= 2) return std::nullopt;
  if (columns) return rows ? ChromaUpsampling::kColumnsAndRows : ChromaUpsampling::kColumns;
  return ChromaUpsampling::kRows;
}

bool HasFullLuma(const JpegFrame& frame) noexcept {
  if (frame.color == JpegColor::kGray) return true;
  return frame.color == JpegColor::kYcbcr &&
         GetSampling(frame, 0) == Sampling{frame.max_h, frame.max_v};
}

}  // namespace endcap
