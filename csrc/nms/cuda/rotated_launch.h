#pragma once

#include <cstddef>
#include <cstdint>

#include "endcap/nms.h"
#include "nms/rotated_methods.h"

namespace endcap {

// Suppression of rotated boxes on a GPU: what a launch passes to the kernels, and the scratch
// memory that it needs. The kernels' side is nms/cuda/suppression.cuh.

// How two boxes are compared: by bounds first, then by the limit.
template <typename RotatedMethodBounds>
struct RotatedComparison {
  using Bounds = RotatedMethodBounds;
  using Method = typename Bounds::Method;
  using Box = typename Method::Box;

  Bounds bounds;
  typename Method::Limit limit;
};

struct RotatedRule {
  RotatedNms method;
  RotatedComparison<PolygonBounds> polygon;
  RotatedComparison<ProbiouBounds> probiou;
};

template <typename Bounds>
RotatedComparison<Bounds> MakeComparison(double iou_threshold) {
  return {Bounds(iou_threshold), Bounds::Method::MakeLimit(iou_threshold)};
}

inline RotatedRule MakeRotatedRule(RotatedNms method, double iou_threshold) {
  return {method, MakeComparison<PolygonBounds>(iou_threshold),
          MakeComparison<ProbiouBounds>(iou_threshold)};
}

struct SuppressorBounds {
  RotatedBounds place;
  int32_t class_id;
};

// Boxes that a block processes at a time, and its threads: half as many as for axis-aligned boxes,
// because comparing rotated boxes takes more registers.
inline constexpr uint32_t kRotatedChunk = 512;

// Scratch of one image: the boxes that candidates of later chunks are compared with, at most
// `suppressors`, a chunk of boxes, and the keys of at most `rows` kept ones.
struct RotatedScratchSize {
  uint32_t suppressors;
  uint32_t rows;
};

// The scratch for `candidates` boxes of which at most `rows` are kept.
inline RotatedScratchSize SizeRotatedScratch(RotatedNms method, uint32_t candidates,
                                             uint32_t rows) {
  return {method == RotatedNms::kProbiouFast ? candidates : rows, rows};
}

// Its bytes, a multiple of 8.
inline size_t RotatedScratchBytes(RotatedNms method, const RotatedScratchSize& size) {
  const size_t box_bytes =
      method == RotatedNms::kPolygon ? sizeof(PolygonMethod::Box) : sizeof(ProbiouMethod::Box);
  const size_t bytes = box_bytes * (size_t{size.suppressors} + kRotatedChunk) +
                       sizeof(uint64_t) * size_t{size.rows} +
                       sizeof(SuppressorBounds) * size_t{size.suppressors};
  return (bytes + 7) / 8 * 8;
}

}  // namespace endcap
