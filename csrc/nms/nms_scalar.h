#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "endcap/nms.h"

namespace endcap {

// The definition: walks the boxes from best to worst and keeps each that no kept box of its class
// suppresses. `order` holds the indices, best first. Arguments are checked already.
// Replaces `indices`.
void NmsScalar(std::span<const float> boxes_xyxy, std::span<const int32_t> class_ids,
               std::span<const int64_t> order, const NmsOptions& options,
               std::vector<int64_t>& indices);

}  // namespace endcap
