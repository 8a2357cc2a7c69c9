#pragma once

#include <cstdint>

#include "box_decode/box_format.h"
#include "box_decode/families.h"
#include "common/elementary_functions.h"
#include "common/host_device.h"
#include "endcap/box_decode.h"

namespace endcap {

// Anchors: their grid, the boxes at them, and both as kernels need them.

// The anchors of the grid of ResolveAnchors, level by level, cell by cell, size by size; none is
// stored.
int64_t AnchorCount(const HeadParams& params) noexcept;

// Centre, width and height in pixels of the model's input. 0 <= index < AnchorCount.
BoxXyxy AnchorAt(const HeadParams& params, const AnchorSettings& anchors, int64_t index) noexcept;

// The anchor of a size in a cell.
ENDCAP_HOST_DEVICE inline BoxXyxy AnchorInCell(int64_t column, int64_t row, double offset,
                                               double stride, float width, float height) {
  return {static_cast<float>((static_cast<double>(column) + offset) * stride),
          static_cast<float>((static_cast<double>(row) + offset) * stride), width, height};
}

// ssd's boxes are 1000/16 times as large as their anchors at most, as in Detectron and torchvision.
inline constexpr double kMaxLogSize = 4.135166556742356;

// An anchor's corners as centre, width and height.
ENDCAP_HOST_DEVICE inline BoxXyxy ToCentreForm(const BoxXyxy& corners) {
  const float w = corners.x2 - corners.x1;
  const float h = corners.y2 - corners.y1;
  return {corners.x1 + 0.5F * w, corners.y1 + 0.5F * h, w, h};
}

ENDCAP_HOST_DEVICE inline float ScaledSize(float offset, double variance, double max_log_size,
                                           float side) {
  const double power = offset * variance;
  return static_cast<float>(Exponential(power > max_log_size ? max_log_size : power)) * side;
}

// The box that `offsets` from an anchor say, after the SSD paper (arXiv 1512.02325): the centre
// moves by parts of the anchor's size, width and height change by a factor in logarithms; each
// offset is multiplied by its variance first. `anchor` and the result are centre, width and height.
ENDCAP_HOST_DEVICE inline BoxXyxy BoxAtAnchor(const BoxXyxy& offsets, const BoxXyxy& anchor,
                                              const double* variances, double max_log_size) {
  const auto& [cx, cy, w, h] = anchor;
  return {static_cast<float>(offsets.x1 * variances[0]) * w + cx,
          static_cast<float>(offsets.y1 * variances[1]) * h + cy,
          ScaledSize(offsets.x2, variances[2], max_log_size, w),
          ScaledSize(offsets.y2, variances[3], max_log_size, h)};
}

inline BoxXyxy BoxAtAnchor(const BoxXyxy& offsets, const BoxXyxy& anchor,
                           const AnchorSettings& settings) {
  return BoxAtAnchor(offsets, anchor, settings.variances.data(), settings.max_log_size);
}

// A grid as kernels need it is part of the launch's arguments, and so needs no device memory.

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
  AnchorSource source;   // kNone where boxes are decoded already
  int32_t from_corners;  // the input's anchors
  double variances[4];
  double offset;
  double max_log_size;
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
