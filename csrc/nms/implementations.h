#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "endcap/nms.h"

namespace endcap {

// The CPU implementations of Nms and NmsRotated, whose arguments are checked already. `order` holds
// the boxes from best to worst, equal scores (ties) by ascending index. Each replaces `kept`.

// The definition: takes the boxes in order and keeps each that no kept box of its class suppresses.
void NmsScalar(std::span<const float> boxes_xyxy, std::span<const int32_t> class_ids,
               std::span<const int64_t> order, const NmsOptions& options,
               std::vector<int64_t>& kept);

// The definition: takes the boxes in order. The greedy methods keep each box that no kept box of
// its class suppresses; probiou_fast each that no better box of its class suppresses.
void NmsRotatedScalar(std::span<const float> boxes_xywhr, std::span<const int32_t> class_ids,
                      std::span<const int64_t> order, const RotatedNmsOptions& options,
                      std::vector<int64_t>& kept);

// The following return the same indices as the scalar implementations. They make the same
// comparisons, several at a time, and leave out pairs of boxes that bounds prove to be without
// effect. `order` holds keys of ScoreKey. Scratch memory is kept by the calling thread.

void NmsSimd(std::span<const float> boxes_xyxy, std::span<const int32_t> class_ids,
             std::span<const uint64_t> order, const NmsOptions& options,
             std::vector<int64_t>& kept);

void NmsRotatedSimd(std::span<const float> boxes_xywhr, std::span<const int32_t> class_ids,
                    std::span<const uint64_t> order, const RotatedNmsOptions& options,
                    std::vector<int64_t>& kept);

}  // namespace endcap
