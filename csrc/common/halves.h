#pragma once

#include <cstdint>
#include <span>

#include "endcap/implementation.h"

namespace endcap {

// float16 to float32, on either implementation of the CPU with the same numbers.
void HalvesToFloats(std::span<const uint16_t> halves, Implementation implementation, float* floats);

}  // namespace endcap
