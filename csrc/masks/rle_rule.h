#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace endcap {

// A number of COCO's compressed run lengths: groups of 5 bits, the lowest first, a character each.
inline constexpr int kRleGroupBits = 5;
inline constexpr int64_t kRleGroup = 31;
inline constexpr int64_t kRleSign = 16;  // of the last group
inline constexpr int kRleMore = 32;      // another group follows
inline constexpr int kRleZero = 48;      // '0' stands for a group of 0
inline constexpr int kRleMaxGroups = 7;  // differences of 32-bit numbers

// Calls put(char) for each group of the number.
template <typename Put>
ENDCAP_HOST_DEVICE void WriteRleNumber(int64_t number, Put put) {
  bool more = true;
  while (more) {
    const int64_t group = number & kRleGroup;
    number >>= kRleGroupBits;
    more = (group & kRleSign) != 0 ? number != -1 : number != 0;
    put(static_cast<char>(group + (more ? kRleMore : 0) + kRleZero));
  }
}

}  // namespace endcap
