#pragma once

#include <cstdint>
#include <span>

#include "endcap/implementation.h"

namespace endcap {

// float16 to float32, on either path of the CPU with the same numbers.
void HalvesToFloats(std::span<const uint16_t> halves, Path path, float* floats);

}  // namespace endcap
