#pragma once

#include <cstdint>

#include "box_decode/anchor_grid.h"
#include "common/host_device.h"
#include "endcap/box_decode.h"

namespace endcap {

// ssd's anchors as kernels need them. A grid is part of the launch's arguments, so that it needs no
// memory of its own.

inline constexpr uint32_t kMaxGridLevels = 16;
inline constexpr uint32_t kMaxGridSizes = 128;  // of all levels together

struct GridLevel {
  double stride;
  uint32_t columns;       // cells
  uint32_t first_anchor;  // the levels ascend with it
  uint32_t first_size;
  uint32_t size_count;
};

struct GridSize {
  float width, height;
};

struct AnchorRule {
  AnchorSource source;   // kNone for other families
  int32_t from_corners;  // the input's anchors
  double variances[4];
  double offset;
  uint32_t level_count;
  GridLevel levels[kMaxGridLevels];
  GridSize sizes[kMaxGridSizes];
};

// Whether the grid has room in an AnchorRule.
bool GridFits(const HeadParams& params) noexcept;

// The grid must fit.
AnchorRule MakeAnchorRule(const HeadParams& params);

// AnchorAt of a grid. 0 <= index < AnchorCount.
ENDCAP_HOST_DEVICE inline BoxXyxy GridAnchor(const AnchorRule& rule, uint32_t index) {
  uint32_t at = rule.level_count - 1;
  while (rule.levels[at].first_anchor > index) --at;
  const GridLevel& level = rule.levels[at];
  const uint32_t in_level = index - level.first_anchor;
  const GridSize& size = rule.sizes[level.first_size + in_level % level.size_count];
  const uint32_t cell = in_level / level.size_count;
  return AnchorInCell(cell % level.columns, cell / level.columns, rule.offset, level.stride,
                      size.width, size.height);
}

}  // namespace endcap
