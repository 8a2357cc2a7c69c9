#pragma once

#include <cstdint>

namespace endcap {

// Two 16-bit weights side by side, as vector code multiplies them.
inline int32_t Pair(int32_t first, int32_t second) {
  return static_cast<int32_t>(static_cast<uint32_t>(first & 0xFFFF) | static_cast<uint32_t>(second)
                                                                          << 16U);
}

}  // namespace endcap
