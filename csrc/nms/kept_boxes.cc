#include "nms/kept_boxes.h"

#include <algorithm>
#include <cmath>

#include "nms/iou.h"

namespace endcap {
namespace {

// The cores are shrunk by a hundred-thousandth less than the proof allows, for the roundings of
// BoxIou (below 1e-6 of its value) and of the cores. Where these are no longer relative, nothing
// is shrunk: thresholds so small, and areas so near to the subnormal numbers.
constexpr double kSlack = 1e-5;
constexpr double kMinThreshold = 1e-3;
constexpr float kMinArea = 0x1p-100F;

constexpr size_t kSample = 256;
constexpr size_t kBoxesPerCell = 64;
constexpr size_t kGridFrom = 256;  // boxes of a class; fewer are in one cell
constexpr double kMaxCellsPerSide = 256.0;
constexpr uint32_t kMaxCellsOfABox = 16;  // of those kept in cells: bounds the memory

constexpr float kInf = std::numeric_limits<float>::infinity();

uint32_t CellAt(double distance, double cells_per_unit, uint32_t cells) noexcept {
  const double place = distance * cells_per_unit;
  if (!(place > 0.0)) return 0;
  return place < cells ? static_cast<uint32_t>(place) : cells - 1;
}

struct Sample {
  std::array<float, kSample> values;
  size_t count = 0;

  void Take(float value) { values[count++] = value; }
  double Quantile(size_t tenths) {
    const auto place = values.begin() + static_cast<ptrdiff_t>(count * tenths / 10);
    std::nth_element(values.begin(), place, values.begin() + static_cast<ptrdiff_t>(count));
    return static_cast<double>(*place);
  }
};

}  // namespace

void KeptBoxes::Reset(std::span<const float> boxes_xyxy, std::span<const int32_t> class_ids,
                      double iou_threshold) {
  const bool shrinks = iou_threshold >= kMinThreshold;
  shrink_ = shrinks ? iou_threshold / (1.0 + iou_threshold) * (1.0 - kSlack) : 0.0;
  least_area_ratio_ = shrinks ? static_cast<float>(iou_threshold * (1.0 - kSlack)) : 0.0F;
  const size_t count = boxes_xyxy.size() / 4;
  classes_.Assign(class_ids);
  class_sizes_.assign(classes_.count(), 0);
  for (size_t i = 0; i < count; ++i) ++class_sizes_[classes_[i]];
  const size_t most = *std::max_element(class_sizes_.begin(), class_sizes_.end());
  if (most >= kGridFrom) Measure(boxes_xyxy);
  grids_.assign(classes_.count(), {});
  uint32_t cells = 0;
  for (size_t c = 0; c < grids_.size(); ++c) {
    if (class_sizes_[c] >= kGridFrom) LayOut(grids_[c], class_sizes_[c]);
    grids_[c].first_cell = cells;
    cells += grids_[c].columns * grids_[c].rows;
  }
  chains_.assign(cells, BoxBlock::kNone);
  blocks_.clear();
}

void KeptBoxes::Measure(std::span<const float> boxes_xyxy) {
  Sample x;
  Sample y;
  Sample width;
  Sample height;
  const size_t step = std::max<size_t>(1, boxes_xyxy.size() / 4 / kSample) * 4;
  for (size_t i = 0; i < boxes_xyxy.size() && x.count < kSample; i += step) {
    const float* box = boxes_xyxy.data() + i;
    if (!CanOverlap(box, BoxArea(box))) continue;
    x.Take(box[0] * 0.5F + box[2] * 0.5F);
    y.Take(box[1] * 0.5F + box[3] * 0.5F);
    width.Take(box[2] - box[0]);
    height.Take(box[3] - box[1]);
  }
  extent_x_ = extent_y_ = 0.0;
  if (x.count == 0) return;
  origin_x_ = x.Quantile(1);
  origin_y_ = y.Quantile(1);
  extent_x_ = x.Quantile(9) - origin_x_;
  extent_y_ = y.Quantile(9) - origin_y_;
  // From the middle eight tenths to the whole.
  origin_x_ -= extent_x_ / 8;
  origin_y_ -= extent_y_ / 8;
  extent_x_ *= 1.25;
  extent_y_ *= 1.25;
  // Few cores are smaller than these; larger ones touch several cells.
  core_width_ = width.Quantile(2) * (1.0 - 2.0 * shrink_);
  core_height_ = height.Quantile(2) * (1.0 - 2.0 * shrink_);
}

// As many cells as the number of boxes is worth, but none smaller than the smaller cores.
void KeptBoxes::LayOut(ClassGrid& grid, size_t boxes) const noexcept {
  const double per_side =
      std::min(kMaxCellsPerSide, std::sqrt(static_cast<double>(boxes) / kBoxesPerCell));
  const auto cells = [per_side](double extent, double core) {
    return static_cast<uint32_t>(
        std::max(1.0, extent < per_side * core ? extent / core : per_side));
  };
  if (extent_x_ > 0.0) {
    grid.columns = cells(extent_x_, core_width_);
    grid.columns_per_unit = grid.columns / extent_x_;
  }
  if (extent_y_ > 0.0) {
    grid.rows = cells(extent_y_, core_height_);
    grid.rows_per_unit = grid.rows / extent_y_;
  }
}

KeptBoxes::Cells KeptBoxes::FindCells(const ClassGrid& grid, const float* box,
                                      float area) const noexcept {
  if (grid.columns * grid.rows == 1) return {0, 0, 0, 0};
  const double shrink = area >= kMinArea ? shrink_ : 0.0;
  const double x1 = box[0];
  const double y1 = box[1];
  const double x2 = box[2];
  const double y2 = box[3];
  const double margin_x = (x2 - x1) * shrink;
  const double margin_y = (y2 - y1) * shrink;
  return {CellAt(x1 + margin_x - origin_x_, grid.columns_per_unit, grid.columns),
          CellAt(x2 - margin_x - origin_x_, grid.columns_per_unit, grid.columns),
          CellAt(y1 + margin_y - origin_y_, grid.rows_per_unit, grid.rows),
          CellAt(y2 - margin_y - origin_y_, grid.rows_per_unit, grid.rows)};
}

void KeptBoxes::Add(ClassGrid& grid, const Cells& cells, const float* box, float area) {
  if (cells.count() > kMaxCellsOfABox) {
    grid.smallest_in_wide = std::min(grid.smallest_in_wide, area);
    AddToChain(grid.wide, box, area);
    return;
  }
  grid.largest_in_cells = std::max(grid.largest_in_cells, area);
  for (uint32_t row = cells.top; row <= cells.bottom; ++row) {
    uint32_t* chains = &chains_[grid.first_cell + row * grid.columns];
    for (uint32_t column = cells.left; column <= cells.right; ++column) {
      AddToChain(chains[column], box, area);
    }
  }
}

void KeptBoxes::AddToChain(uint32_t& chain, const float* box, float area) {
  if (chain == BoxBlock::kNone || blocks_[chain].used == BoxBlock::kSize) {
    BoxBlock& fresh = blocks_.emplace_back();
    fresh.x1.fill(kInf);
    fresh.y1.fill(kInf);
    fresh.x2.fill(-kInf);
    fresh.y2.fill(-kInf);
    fresh.area.fill(0.0F);
    fresh.next = chain;
    fresh.used = 0;
    chain = static_cast<uint32_t>(blocks_.size() - 1);
  }
  BoxBlock& block = blocks_[chain];
  const size_t place = block.used++;
  block.x1[place] = box[0];
  block.y1[place] = box[1];
  block.x2[place] = box[2];
  block.y2[place] = box[3];
  block.area[place] = area;
}

}  // namespace endcap
