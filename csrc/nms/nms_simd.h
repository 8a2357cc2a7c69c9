#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "endcap/nms.h"
#include "nms/kept_boxes.h"

namespace endcap {

// As NmsScalar, bit for bit: the same comparisons, less those that KeptBoxes proves to be without
// effect, several at a time. `order` holds keys of ScoreKey, best first; `kept_boxes` is memory.
// Replaces `kept`.
void NmsSimd(std::span<const float> boxes_xyxy, std::span<const int32_t> class_ids,
             std::span<const uint64_t> order, const NmsOptions& options, KeptBoxes& kept_boxes,
             std::vector<int64_t>& kept);

}  // namespace endcap
