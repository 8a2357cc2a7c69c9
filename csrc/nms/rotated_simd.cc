#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nms/rotated_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <bit>

#include "common/score_order.h"
#include "nms/implementations.h"
#include "nms/rotated_suppressors.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, RotatedBlock::kSize>;

// Which of the boxes of a block, from `i` on, may have an IoU above the threshold with the
// candidate.
hn::Mask<Floats> MayExceed(const PolygonBounds& bounds, const RotatedBlock& block, size_t i,
                           const RotatedBounds& candidate) {
  const Floats d;
  const auto zero = hn::Zero(d);
  const auto area = hn::Load(d, &block.area[i]);
  const auto own_area = hn::Set(d, candidate.area);
  const auto dx = hn::Abs(hn::Sub(hn::Load(d, &block.cx[i]), hn::Set(d, candidate.cx)));
  const auto dy = hn::Abs(hn::Sub(hn::Load(d, &block.cy[i]), hn::Set(d, candidate.cy)));
  const auto reach_x = hn::Add(hn::Load(d, &block.reach_x[i]), hn::Set(d, candidate.reach_x));
  const auto reach_y = hn::Add(hn::Load(d, &block.reach_y[i]), hn::Set(d, candidate.reach_y));
  const auto width = hn::Sub(reach_x, dx);
  const auto height = hn::Sub(reach_y, dy);
  const auto shared = hn::Min(hn::Mul(width, height), hn::Min(area, own_area));
  const auto needed = hn::Mul(hn::Set(d, bounds.share()), hn::Add(area, own_area));
  return hn::And(hn::And(hn::Gt(width, zero), hn::Gt(height, zero)), hn::Ge(shared, needed));
}

hn::Mask<Floats> MayExceed(const ProbiouBounds& bounds, const RotatedBlock& block, size_t i,
                           const RotatedBounds& candidate) {
  const Floats d;
  const auto area = hn::Load(d, &block.area[i]);
  const auto own_area = hn::Set(d, candidate.area);
  const auto dx = hn::Sub(hn::Load(d, &block.cx[i]), hn::Set(d, candidate.cx));
  const auto dy = hn::Sub(hn::Load(d, &block.cy[i]), hn::Set(d, candidate.cy));
  const auto reach_x = hn::Add(hn::Load(d, &block.reach_x[i]), hn::Set(d, candidate.reach_x));
  const auto reach_y = hn::Add(hn::Load(d, &block.reach_y[i]), hn::Set(d, candidate.reach_y));
  const auto both = hn::Add(area, own_area);
  const auto alike = hn::Mul(hn::Mul(area, own_area), hn::Set(d, bounds.likeness()));
  return hn::And(hn::And(hn::Le(hn::Mul(dx, dx), reach_x), hn::Le(hn::Mul(dy, dy), reach_y)),
                 hn::Le(hn::Mul(both, both), alike));
}

// A box to be kept or not, against the suppressors of its class.
template <typename Bounds>
struct Candidate {
  using Method = typename Bounds::Method;
  using Suppressors = RotatedSuppressors<typename Method::Box>;

  const Bounds& method_bounds;
  const typename Method::Limit& limit;
  const Suppressors& suppressors;
  typename Method::Box box;
  RotatedBounds bounds;

  bool FallsTo(uint32_t suppressor) const {
    return Method::Exceeds(suppressors.At(suppressor), box, limit);
  }

  bool IsSuppressedByChain(uint32_t chain) const {
    while (chain != RotatedBlock::kNone) {
      const RotatedBlock& block = suppressors.Block(chain);
      for (uint32_t place = 0; place < block.used; ++place) {
        if (FallsTo(block.box[place])) return true;
      }
      chain = block.next;
    }
    return false;
  }

  bool IsSuppressedNear(uint32_t chain) const {
    const Floats d;
    while (chain != RotatedBlock::kNone) {
      const RotatedBlock& block = suppressors.Block(chain);
      for (size_t i = 0; i < RotatedBlock::kSize; i += hn::Lanes(d)) {
        const auto mask = MayExceed(method_bounds, block, i, bounds);
        if (hn::AllFalse(d, mask)) continue;
        uint8_t bytes[8] = {};  // as many as StoreMaskBits may write
        hn::StoreMaskBits(d, mask, bytes);
        for (auto bits = std::bit_cast<uint64_t>(bytes); bits != 0; bits &= bits - 1) {
          if (FallsTo(block.box[i + static_cast<size_t>(std::countr_zero(bits))])) return true;
        }
      }
      chain = block.next;
    }
    return false;
  }

  bool Suppressed(const typename Suppressors::Chains& chains) const {
    if (IsSuppressedByChain(chains.unknown)) return true;
    return bounds.known ? IsSuppressedNear(chains.known) : IsSuppressedByChain(chains.known);
  }
};

template <typename Bounds>
void Suppress(const float* boxes_xywhr, std::span<const int32_t> class_ids,
              std::span<const uint64_t> order, const RotatedNmsOptions& options,
              RotatedSuppressors<typename Bounds::Method::Box>& suppressors,
              std::vector<int64_t>& kept) {
  using Method = typename Bounds::Method;
  const bool suppressed_suppress = options.method == RotatedNms::kProbiouFast;
  const Bounds bounds(options.iou_threshold);
  const auto limit = Method::MakeLimit(options.iou_threshold);
  suppressors.Reset(class_ids);
  for (const uint64_t key : order) {
    if (options.max_detections >= 0 && std::ssize(kept) >= options.max_detections) break;
    const size_t index = KeyPosition(key);
    const float* xywhr = boxes_xywhr + 5 * index;
    const auto box = Method::Prepare(xywhr);
    bool suppressed = false;
    if (Method::Overlaps(box)) {
      auto& chains = suppressors.FindChains(index);
      const Candidate<Bounds> candidate{bounds, limit, suppressors, box, bounds.Of(xywhr, box)};
      suppressed = candidate.Suppressed(chains);
      if (!suppressed || suppressed_suppress) suppressors.Add(chains, candidate.bounds, box);
    }
    if (!suppressed) kept.push_back(static_cast<int64_t>(index));
  }
  suppressors.Trim();
}

void SuppressRotated(const float* boxes_xywhr, std::span<const int32_t> class_ids,
                     std::span<const uint64_t> order, const RotatedNmsOptions& options,
                     RotatedScratch& scratch, std::vector<int64_t>& kept) {
  if (options.method == RotatedNms::kPolygon) {
    Suppress<PolygonBounds>(boxes_xywhr, class_ids, order, options, scratch.polygons, kept);
  } else {
    Suppress<ProbiouBounds>(boxes_xywhr, class_ids, order, options, scratch.gaussians, kept);
  }
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(SuppressRotated);

void NmsRotatedSimd(std::span<const float> boxes_xywhr, std::span<const int32_t> class_ids,
                    std::span<const uint64_t> order, const RotatedNmsOptions& options,
                    std::vector<int64_t>& kept) {
  thread_local RotatedScratch scratch;
  kept.clear();
  HWY_DYNAMIC_DISPATCH(SuppressRotated)
  (boxes_xywhr.data(), class_ids, order, options, scratch, kept);
}

}  // namespace endcap
#endif  // HWY_ONCE
