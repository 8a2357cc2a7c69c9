#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "endcap/nms.h"

namespace endcap {

// The definition: walks the boxes from best to worst. The greedy methods keep each that no kept box
// of its class suppresses; probiou_fast each that no better box of its class does. `order` holds
// the indices, best first. Arguments are checked already. Replaces `indices`.
void NmsRotatedScalar(std::span<const float> boxes_xywhr, std::span<const int32_t> class_ids,
                      std::span<const int64_t> order, const RotatedNmsOptions& options,
                      std::vector<int64_t>& indices);

}  // namespace endcap
