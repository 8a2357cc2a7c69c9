#pragma once

#include <cstdint>

#include "box_decode/box_format.h"
#include "endcap/box_decode.h"

namespace endcap {

// The anchors of HeadParams::anchor_grid, level by level, cell by cell, size by size; none is
// stored.
int64_t AnchorCount(const HeadParams& params) noexcept;

// Centre, width and height in pixels of the model's input. 0 <= index < AnchorCount.
BoxXyxy AnchorAt(const HeadParams& params, int64_t index) noexcept;

}  // namespace endcap
