#include "nms/rotated_rule.h"

namespace endcap {
namespace {

template <typename Bounds>
RotatedComparison<Bounds> Compare(double iou_threshold) {
  return {Bounds(iou_threshold), Bounds::Method::MakeLimit(iou_threshold)};
}

}  // namespace

RotatedRule MakeRotatedRule(RotatedNms method, double iou_threshold) {
  return {method, Compare<PolygonBounds>(iou_threshold), Compare<ProbiouBounds>(iou_threshold)};
}

RotatedScratchSize SizeRotatedScratch(RotatedNms method, uint32_t candidates, uint32_t rows) {
  return {method == RotatedNms::kProbiouFast ? candidates : rows, rows};
}

size_t RotatedScratchBytes(RotatedNms method, const RotatedScratchSize& size) {
  const size_t box_bytes =
      method == RotatedNms::kPolygon ? sizeof(PolygonMethod::Box) : sizeof(ProbiouMethod::Box);
  const size_t bytes = box_bytes * (size_t{size.suppressors} + kRotatedChunk) +
                       sizeof(uint64_t) * size_t{size.rows} +
                       sizeof(SuppressorBounds) * size_t{size.suppressors};
  return (bytes + 7) / 8 * 8;
}

}  // namespace endcap
