#include "box_decode/anchor_grid.h"

#include <cmath>

namespace endcap {
namespace {

int64_t Cells(int pixels, double stride) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(pixels) / stride));
}

int64_t LevelCount(const HeadParams& params, const AnchorLevel& level) {
  return Cells(params.input_height, level.stride) * Cells(params.input_width, level.stride) *
         std::ssize(level.sizes);
}

}  // namespace

int64_t AnchorCount(const HeadParams& params) noexcept {
  int64_t count = 0;
  for (const AnchorLevel& level : params.anchor_grid) count += LevelCount(params, level);
  return count;
}

BoxXyxy AnchorAt(const HeadParams& params, int64_t index) noexcept {
  auto level = params.anchor_grid.begin();
  for (int64_t count = LevelCount(params, *level); index >= count;
       count = LevelCount(params, *level)) {
    index -= count;
    ++level;
  }
  const auto sizes = std::ssize(level->sizes);
  const auto& size = level->sizes[static_cast<size_t>(index % sizes)];
  const int64_t cell = index / sizes;
  const int64_t columns = Cells(params.input_width, level->stride);
  const double column = static_cast<double>(cell % columns) + params.anchor_offset;
  const int64_t whole_rows = cell / columns;
  const double row = static_cast<double>(whole_rows) + params.anchor_offset;
  return {static_cast<float>(column * level->stride), static_cast<float>(row * level->stride),
          static_cast<float>(size[0]), static_cast<float>(size[1])};
}

}  // namespace endcap
