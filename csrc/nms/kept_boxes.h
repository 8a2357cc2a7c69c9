#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/score_order.h"
#include "nms/class_numbers.h"

namespace endcap {

// Kept boxes as a structure of arrays. Unused places hold a box that overlaps nothing.
struct alignas(64) BoxBlock {
  static constexpr size_t kSize = 16;
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  std::array<float, kSize> x1, y1, x2, y2, area;
  uint32_t next;  // index of the next block of the chain, or kNone
  uint32_t used;
};

// The kept boxes of every class in a grid, so that a candidate is compared only with boxes that can
// suppress it.
//
// If the IoU of two boxes is greater than t, then also that of their x intervals, so the
// intervals share more than s = t/(1+t) of the sum of the widths; the same for y and the heights.
// Hence the two boxes' *cores*, which leave out s of the width and height on every side, still
// overlap. Each class has a grid; a kept box is listed in every cell that its core
// touches, and a candidate is compared with the boxes of every cell that its own core touches. The
// mapping from coordinate to cell is monotonic, so overlapping cores share a cell, wherever the
// grid lies. A kept box whose core touches too many cells is listed in the class's wide chain,
// which every candidate is compared with. The grid only leaves out pairs; BoxIou decides.
class KeptBoxes {
 public:
  // Cells of a class: columns [left, right], rows [top, bottom].
  struct Cells {
    uint32_t left, right, top, bottom;
    uint32_t count() const noexcept { return (right - left + 1) * (bottom - top + 1); }
  };
  struct ClassGrid {
    uint32_t first_cell = 0;
    uint32_t columns = 1;
    uint32_t rows = 1;
    double columns_per_unit = 0.0;
    double rows_per_unit = 0.0;
    uint32_t wide = BoxBlock::kNone;
    float largest_in_cells = 0.0F;  // areas
    float smallest_in_wide = std::numeric_limits<float>::infinity();
  };

  // Forgets all boxes and lays out grids for `boxes_xyxy` [N][4].
  void Reset(std::span<const float> boxes_xyxy, std::span<const int32_t> class_ids,
             double iou_threshold);

  // Whether the box can have a positive IoU with any other: positive sides, and an area that is
  // neither 0 nor infinite; false for any NaN. Other boxes are never added nor compared.
  static bool CanOverlap(const float* box, float area) noexcept {
    return box[0] < box[2] && box[1] < box[3] && area > 0.0F &&
           area <= std::numeric_limits<float>::max();
  }

  ClassGrid& MakeGrid(size_t box_index) { return grids_[classes_[box_index]]; }
  Cells FindCells(const ClassGrid& grid, const float* box, float area) const noexcept;
  void Add(ClassGrid& grid, const Cells& cells, const float* box, float area);

  // The first block of a cell's chain.
  uint32_t Chain(const ClassGrid& grid, uint32_t column, uint32_t row) const noexcept {
    return chains_[grid.first_cell + row * grid.columns + column];
  }
  const BoxBlock& Block(uint32_t number) const noexcept { return blocks_[number]; }

  // Whether a box in the cells, or in the wide chain, can suppress a candidate of this area: IoU is
  // at most the ratio of the areas.
  bool CellsMatter(const ClassGrid& grid, float area) const noexcept {
    return grid.largest_in_cells >= area * least_area_ratio_;
  }
  bool WideMatters(const ClassGrid& grid, float area) const noexcept {
    return area >= grid.smallest_in_wide * least_area_ratio_;
  }

  void Trim() { TrimScratch(classes_.memory(), grids_, class_sizes_, chains_, blocks_); }

 private:
  void Measure(std::span<const float> boxes_xyxy);
  void LayOut(ClassGrid& grid, size_t boxes) const noexcept;
  void AddToChain(uint32_t& chain, const float* box, float area);

  double shrink_ = 0.0;  // s, a little less than t/(1+t)
  float least_area_ratio_ = 0.0F;
  // Where most centres are, and the size of the smaller cores; from a sample.
  double origin_x_ = 0.0, origin_y_ = 0.0, extent_x_ = 0.0, extent_y_ = 0.0;
  double core_width_ = 0.0, core_height_ = 0.0;
  ClassNumbers classes_;
  std::vector<ClassGrid> grids_;
  std::vector<uint32_t> class_sizes_;
  std::vector<uint32_t> chains_;
  std::vector<BoxBlock> blocks_;
};

}  // namespace endcap
