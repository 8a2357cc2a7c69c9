#include "box_decode/anchor_rule.h"

#include <algorithm>

namespace endcap {

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
