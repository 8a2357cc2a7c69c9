#pragma once

#include <cstdint>
#include <vector>

#include "endcap/preprocess.h"
#include "preprocess/cuda/fused_launch.h"

namespace endcap {

// The elements that 8-bit pixels become, as the CPU's rows have them: [3][256], their bits.
std::vector<uint8_t> ElementTable(const PreprocessParams& params);

// Fills in how the kernel normalises: `normalize`, `split`, `single` and `padding`. kSplit only
// where it gives the elements of the table for each of the 256 pixels.
void SetNormalize(const PreprocessParams& params, FusedLaunch& launch);

}  // namespace endcap
