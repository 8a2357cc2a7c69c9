#pragma once

#include <cstdint>

#include "box_decode/box_format.h"
#include "common/host_device.h"
#include "endcap/box_decode.h"

namespace endcap {

// The anchors of HeadParams::anchor_grid, level by level, cell by cell, size by size; none is
// stored.
int64_t AnchorCount(const HeadParams& params) noexcept;

// Centre, width and height in pixels of the model's input. 0 <= index < AnchorCount.
BoxXyxy AnchorAt(const HeadParams& params, int64_t index) noexcept;

// A level's part of the count, and its cells along a side of `pixels`.
int64_t LevelAnchors(const HeadParams& params, const AnchorLevel& level) noexcept;
int64_t GridCells(int pixels, double stride) noexcept;

// The anchor of a size in a cell.
ENDCAP_HOST_DEVICE inline BoxXyxy AnchorInCell(int64_t column, int64_t row, double offset,
                                               double stride, float width, float height) {
  return {static_cast<float>((static_cast<double>(column) + offset) * stride),
          static_cast<float>((static_cast<double>(row) + offset) * stride), width, height};
}

}  // namespace endcap
