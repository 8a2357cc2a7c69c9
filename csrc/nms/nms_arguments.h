#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace endcap {

// What all suppression asks of its arguments; `layout` names the numbers of a box in the error, of
// which there are `numbers_per_box`. Throws kInvalidArgument.
void CheckNmsArguments(std::span<const float> boxes, size_t numbers_per_box,
                       std::string_view layout, std::span<const float> scores,
                       std::span<const int32_t> class_ids, double iou_threshold);

// The indices of the scores, best first and equal ones by rising index.
std::vector<int64_t> BestFirst(std::span<const float> scores);

// The same as keys of ScoreKey, into `order`; `spare` is memory.
void BestFirst(std::span<const float> scores, std::vector<uint64_t>& order,
               std::vector<uint64_t>& spare);

}  // namespace endcap
