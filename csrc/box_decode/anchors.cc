#include "box_decode/anchors.h"

#include <algorithm>
#include <cmath>

namespace endcap {
namespace {

// The cells of a level along a side of `pixels`.
int64_t GridCells(int pixels, double stride) noexcept {
  return static_cast<int64_t>(std::ceil(static_cast<double>(pixels) / stride));
}

int64_t LevelAnchors(const HeadParams& params, const AnchorLevel& level) noexcept {
  return GridCells(params.input_height, level.stride) *
         GridCells(params.input_width, level.stride) * std::ssize(level.sizes);
}

}  // namespace

int64_t AnchorCount(const HeadParams& params) noexcept {
  int64_t count = 0;
  for (const AnchorLevel& level : *ResolveAnchors(params).grid)
    count += LevelAnchors(params, level);
  return count;
}

BoxXyxy AnchorAt(const HeadParams& params, const AnchorSettings& anchors, int64_t index) noexcept {
  auto level = anchors.grid->begin();
  for (int64_t count = LevelAnchors(params, *level); index >= count;
       count = LevelAnchors(params, *level)) {
    index -= count;
    ++level;
  }
  const auto sizes = std::ssize(level->sizes);
  const auto& size = level->sizes[static_cast<size_t>(index % sizes)];
  const int64_t cell = index / sizes;
  const int64_t columns = GridCells(params.input_width, level->stride);
  return AnchorInCell(cell % columns, cell / columns, anchors.offset, level->stride,
                      static_cast<float>(size[0]), static_cast<float>(size[1]));
}

bool GridFits(const HeadParams& params) noexcept {
  const AnchorSettings anchors = ResolveAnchors(params);
  if (anchors.source != AnchorSource::kGrid) return true;
  size_t sizes = 0;
  for (const AnchorLevel& level : *anchors.grid) sizes += level.sizes.size();
  return anchors.grid->size() <= kMaxGridLevels && sizes <= kMaxGridSizes;
}

AnchorRule MakeAnchorRule(const HeadParams& params) {
  AnchorRule rule = {};
  const AnchorSettings settings = ResolveAnchors(params);
  rule.source = settings.source;
  rule.from_corners = params.ResolvedBoxFormat() == BoxFormat::kXyxy ? 1 : 0;
  std::copy(settings.variances.begin(), settings.variances.end(), rule.variances);
  rule.offset = settings.offset;
  rule.max_log_size = settings.max_log_size;
  if (rule.source != AnchorSource::kGrid) return rule;
  int64_t anchors = 0;
  uint32_t sizes = 0;
  for (const AnchorLevel& level : *settings.grid) {
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
