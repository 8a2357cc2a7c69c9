#pragma once

#include <cstddef>
#include <cstdint>

#include "endcap/nms.h"
#include "nms/rotated_bounds.h"

// What the GPU's suppression of rotated boxes takes with a launch, and the memory that it needs.

namespace endcap {

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

RotatedRule MakeRotatedRule(RotatedNms method, double iou_threshold);

struct SuppressorBounds {
  RotatedBounds place;
  int32_t class_id;
};

// Keys and boxes that a block takes at a time, and its threads: half as many as for axis-aligned
// boxes, since comparing rotated ones takes more registers.
inline constexpr uint32_t kRotatedChunk = 512;

// Scratch of one image: the boxes that candidates of later chunks are compared with, at most
// `suppressors`, a chunk of boxes, and the keys of at most `rows` kept ones. A multiple of 8 bytes.
struct RotatedScratchSize {
  uint32_t suppressors;
  uint32_t rows;
};

// Of `candidates` of which `rows` may be kept.
RotatedScratchSize SizeRotatedScratch(RotatedNms method, uint32_t candidates, uint32_t rows);
size_t RotatedScratchBytes(RotatedNms method, const RotatedScratchSize& size);

}  // namespace endcap
