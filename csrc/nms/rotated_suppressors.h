#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/score_order.h"
#include "nms/class_numbers.h"
#include "nms/rotated_methods.h"

namespace endcap {

// Bounds of boxes as a structure of arrays. Unused places hold NaN, with which every comparison is
// false.
struct alignas(64) RotatedBlock {
  static constexpr size_t kSize = 16;
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  std::array<float, kSize> cx, cy, reach_x, reach_y, area;
  std::array<uint32_t, kSize> box;  // index of the box in RotatedSuppressors
  uint32_t next;                    // index of the next block of the chain, or kNone
  uint32_t used;
};

// The boxes that may suppress later candidates. Each class has a chain of blocks, and another one
// for boxes whose bounds are not known.
template <typename Box>
class RotatedSuppressors {
 public:
  struct Chains {
    uint32_t known = RotatedBlock::kNone;
    uint32_t unknown = RotatedBlock::kNone;
  };

  void Reset(std::span<const int32_t> class_ids) {
    classes_.Assign(class_ids);
    chains_.assign(classes_.count(), {});
    blocks_.clear();
    boxes_.clear();
  }

  Chains& FindChains(size_t box_index) { return chains_[classes_[box_index]]; }
  const RotatedBlock& Block(uint32_t number) const noexcept { return blocks_[number]; }
  const Box& At(uint32_t number) const noexcept { return boxes_[number]; }

  void Add(Chains& chains, const RotatedBounds& bounds, const Box& box) {
    uint32_t& chain = bounds.known ? chains.known : chains.unknown;
    if (chain == RotatedBlock::kNone || blocks_[chain].used == RotatedBlock::kSize) {
      RotatedBlock& fresh = blocks_.emplace_back();
      for (auto* numbers : {&fresh.cx, &fresh.cy, &fresh.reach_x, &fresh.reach_y, &fresh.area}) {
        numbers->fill(std::numeric_limits<float>::quiet_NaN());
      }
      fresh.next = chain;
      fresh.used = 0;
      chain = static_cast<uint32_t>(blocks_.size() - 1);
    }
    RotatedBlock& block = blocks_[chain];
    const size_t place = block.used++;
    block.cx[place] = bounds.cx;
    block.cy[place] = bounds.cy;
    block.reach_x[place] = bounds.reach_x;
    block.reach_y[place] = bounds.reach_y;
    block.area[place] = bounds.area;
    block.box[place] = static_cast<uint32_t>(boxes_.size());
    boxes_.push_back(box);
  }

  void Trim() { TrimScratch(classes_.memory(), chains_, blocks_, boxes_); }

 private:
  ClassNumbers classes_;
  std::vector<Chains> chains_;
  std::vector<RotatedBlock> blocks_;
  std::vector<Box> boxes_;
};

// Memory of NmsRotatedSimd.
struct RotatedScratch {
  RotatedSuppressors<RotatedBox> polygons;
  RotatedSuppressors<GaussianBox> gaussians;
};

}  // namespace endcap
