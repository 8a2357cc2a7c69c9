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

}  // namespace

JpegFrame MakeFrame(const JpegMarkers& markers, int eighths) noexcept {
  JpegFrame frame;
  frame.color = DetectColor(markers);
  frame.progressive = markers.progressive();
  frame.block_size = eighths;
  frame.width = CeilDivide(int64_t{markers.width} * eighths, kBlockSide);
  frame.height = CeilDivide(int64_t{markers.height} * eighths, kBlockSide);
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

std::optional<PlaneUpsampling> GetPlaneUpsampling(const JpegFrame& frame,
                                                  size_t component) noexcept {
  const JpegComponent& plane = frame.components[component];
  const int h = plane.h * plane.block_size / frame.block_size;
  const int v = plane.v * plane.block_size / frame.block_size;
  if (frame.max_h % h != 0 || frame.max_v % v != 0) return std::nullopt;
  PlaneUpsampling upsampling{frame.max_h / h, frame.max_v / v};
  if (frame.block_size == 1 || upsampling.rows > 2) return upsampling;
  upsampling.blends_columns = upsampling.columns == 2 && plane.width > 2;
  upsampling.blends_rows =
      upsampling.rows == 2 && (upsampling.columns == 1 || upsampling.blends_columns);
  return upsampling;
}

std::optional<ChromaUpsampling> GetUpsampling(const JpegFrame& frame) noexcept {
  if (frame.color == JpegColor::kGray) return ChromaUpsampling::kGray;
  if (frame.color != JpegColor::kYcbcr || !HasFullLuma(frame)) return std::nullopt;
  const auto chroma = GetPlaneUpsampling(frame, 1);
  if (!chroma || GetPlaneUpsampling(frame, 2) != chroma) return std::nullopt;
  if (chroma == PlaneUpsampling{}) return ChromaUpsampling::kNone;
  if (chroma == PlaneUpsampling{2, 1, true, false}) return ChromaUpsampling::kColumns;
  if (chroma == PlaneUpsampling{1, 2, false, true}) return ChromaUpsampling::kRows;
  if (chroma == PlaneUpsampling{2, 2, true, true}) return ChromaUpsampling::kColumnsAndRows;
  return std::nullopt;
}

bool HasFullLuma(const JpegFrame& frame) noexcept {
  if (frame.color == JpegColor::kGray) return true;
  return frame.color == JpegColor::kYcbcr && GetPlaneUpsampling(frame, 0) == PlaneUpsampling{};
}

}  // namespace endcap
