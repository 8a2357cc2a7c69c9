#include "box_decode/anchor_grid.h"

#include <cmath>

namespace endcap {

int64_t GridCells(int pixels, double stride) noexcept {
  return static_cast<int64_t>(std::ceil(static_cast<double>(pixels) / stride));
}

int64_t LevelAnchors(const HeadParams& params, const AnchorLevel& level) noexcept {
  return GridCells(params.input_height, level.stride) *
         GridCells(params.input_width, level.stride) * std::ssize(level.sizes);
}

int64_t AnchorCount(const HeadParams& params) noexcept {
  int64_t count = 0;
  for (const AnchorLevel& level : params.anchor_grid) count += LevelAnchors(params, level);
  return count;
}

BoxXyxy AnchorAt(const HeadParams& params, int64_t index) noexcept {
  auto level = params.anchor_grid.begin();
  for (int64_t count = LevelAnchors(params, *level); index >= count;
       count = LevelAnchors(params, *level)) {
    index -= count;
    ++level;
  }
  const auto sizes = std::ssize(level->sizes);
  const auto& size = level->sizes[static_cast<size_t>(index % sizes)];
  const int64_t cell = index / sizes;
  const int64_t columns = GridCells(params.input_width, level->stride);
  return AnchorInCell(cell % columns, cell / columns, params.anchor_offset, level->stride,
                      static_cast<float>(size[0]), static_cast<float>(size[1]));
}

}  // namespace endcap
