#include "box_decode/anchors.h"

#include <algorithm>
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

bool GridFits(const HeadParams& params) noexcept {
  size_t sizes = 0;
  for (const AnchorLevel& level : params.anchor_grid) sizes += level.sizes.size();
  return params.anchor_grid.size() <= kMaxGridLevels && sizes <= kMaxGridSizes;
}

AnchorRule MakeAnchorRule(const HeadParams& params) {
  AnchorRule rule = {};
  rule.source = params.family == HeadFamily::kSsd ? params.anchors : AnchorSource::kNone;
  rule.from_corners = params.ResolvedBoxFormat() == BoxFormat::kXyxy ? 1 : 0;
  std::copy(params.variances.begin(), params.variances.end(), rule.variances);
  if (rule.source != AnchorSource::kGrid) return rule;
  rule.offset = params.anchor_offset;
  int64_t anchors = 0;
  uint32_t sizes = 0;
  for (const AnchorLevel& level : params.anchor_grid) {
    rule.levels[rule.level_count++] = {
        level.stride, static_cast<uint32_t>(GridCells(params.input_width, level.stride)),
        static_cast<uint32_t>(anchors), sizes, static_cast<uint32_t>(level.sizes.size())};
    anchors += LevelAnchors(params, level);
    for (const auto& [width, height] : level.sizes) {
      rule.sizes[sizes++] = {static_cast<float>(width), static_cast<float>(height)};
    }
  }
  return rule;
}

}  // namespace endcap
