#pragma once

#include <cstdint>

namespace endcap {

inline constexpr uint32_t kChunk = 1024;  // keys, and threads of the block

}  // namespace endcap
