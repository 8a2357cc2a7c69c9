#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nms/nms_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include "common/score_order.h"
#include "nms/implementations.h"
#include "nms/iou.h"
#include "nms/kept_boxes.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Candidate {
  const float* box;
  float area;
};

// Whether a box of a chain suppresses the candidate: BoxIou > threshold, where `threshold` is
// GreatestFloatAtMost of the caller's. Max and Min are BoxIou's comparisons, also for NaN: the
// second operand where they are not ordered.
bool ChainSuppresses(const KeptBoxes& kept, uint32_t chain, const Candidate& candidate,
                     float threshold) {
  const hn::CappedTag<float, BoxBlock::kSize> d;
  const auto zero = hn::Zero(d);
  const auto x1 = hn::Set(d, candidate.box[0]);
  const auto y1 = hn::Set(d, candidate.box[1]);
  const auto x2 = hn::Set(d, candidate.box[2]);
  const auto y2 = hn::Set(d, candidate.box[3]);
  const auto area = hn::Set(d, candidate.area);
  const auto limit = hn::Set(d, threshold);
  while (chain != BoxBlock::kNone) {
    const BoxBlock& block = kept.Block(chain);
    for (size_t i = 0; i < BoxBlock::kSize; i += hn::Lanes(d)) {
      const auto left = hn::Max(hn::Load(d, &block.x1[i]), x1);
      const auto top = hn::Max(hn::Load(d, &block.y1[i]), y1);
      const auto right = hn::Min(hn::Load(d, &block.x2[i]), x2);
      const auto bottom = hn::Min(hn::Load(d, &block.y2[i]), y2);
      const auto width = hn::Max(hn::Sub(right, left), zero);
      const auto height = hn::Max(hn::Sub(bottom, top), zero);
      const auto intersection = hn::Mul(width, height);
      const auto both = hn::Sub(hn::Add(hn::Load(d, &block.area[i]), area), intersection);
      // Both areas are positive, so `both` is, too. If intersection < limit * both as rounded, then
      // also without rounding, and the quotient rounds to `limit` at most: no need to divide.
      if (hn::AllFalse(d, hn::Ge(intersection, hn::Mul(limit, both)))) continue;
      if (!hn::AllFalse(d, hn::Gt(hn::Div(intersection, both), limit))) return true;
    }
    chain = block.next;
  }
  return false;
}

bool Suppressed(const KeptBoxes& kept, const KeptBoxes::ClassGrid& grid,
                const KeptBoxes::Cells& cells, const Candidate& candidate, float threshold) {
  if (kept.CellsMatter(grid, candidate.area)) {
    for (uint32_t row = cells.top; row <= cells.bottom; ++row) {
      for (uint32_t column = cells.left; column <= cells.right; ++column) {
        const uint32_t chain = kept.Chain(grid, column, row);
        if (ChainSuppresses(kept, chain, candidate, threshold)) return true;
      }
    }
  }
  return kept.WideMatters(grid, candidate.area) &&
         ChainSuppresses(kept, grid.wide, candidate, threshold);
}

void Suppress(const float* boxes_xyxy, std::span<const uint64_t> order, const NmsOptions& options,
              KeptBoxes& kept_boxes, std::vector<int64_t>& kept) {
  const float threshold = GreatestFloatAtMost(options.iou_threshold);
  for (const uint64_t key : order) {
    if (options.max_detections >= 0 && std::ssize(kept) >= options.max_detections) break;
    const size_t index = KeyPosition(key);
    const Candidate candidate{boxes_xyxy + 4 * index, BoxArea(boxes_xyxy + 4 * index)};
    if (KeptBoxes::CanOverlap(candidate.box, candidate.area)) {
      KeptBoxes::ClassGrid& grid = kept_boxes.MakeGrid(index);
      const auto cells = kept_boxes.FindCells(grid, candidate.box, candidate.area);
      if (Suppressed(kept_boxes, grid, cells, candidate, threshold)) continue;
      kept_boxes.Add(grid, cells, candidate.box, candidate.area);
    }
    kept.push_back(static_cast<int64_t>(index));
  }
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(Suppress);

void NmsSimd(std::span<const float> boxes_xyxy, std::span<const int32_t> class_ids,
             std::span<const uint64_t> order, const NmsOptions& options,
             std::vector<int64_t>& kept) {
  thread_local KeptBoxes kept_boxes;
  kept.clear();
  kept_boxes.Reset(boxes_xyxy, class_ids, options.iou_threshold);
  HWY_DYNAMIC_DISPATCH(Suppress)(boxes_xyxy.data(), order, options, kept_boxes, kept);
  kept_boxes.Trim();
}

}  // namespace endcap
#endif  // HWY_ONCE
