#pragma once

#include <array>

#include "endcap/cost.h"

// Made by `python -m benchmarks.cpu.cost`, which says how: change it there.

namespace endcap {

// Nanoseconds for one of each CostTerm, in their order.
inline constexpr std::array<double, kCostTermCount> kCostCoefficientsNs = {
    3.476e+04,  // image
    4.572,      // sequential_bytes
    12.94,      // sequential_blocks
    7.646,      // progressive_bytes
    12.96,      // scanned_blocks
    12.64,      // transformed_blocks
    6.429,      // png_bytes
    17.34,      // png_pixels
    51.33,      // webp_bytes
    5.7,        // webp_pixels
    14.42,      // gif_pixels
    5.909,      // other_pixels
    0.1894,     // converted_pixels
    0,          // two_taps
    0.3176,     // pillow_taps
    0.3597,     // float_taps
    0.5326,     // turned_pixels
    3.05,       // oriented_pixels
    0,          // tensor_elements
    0.06707,    // tensor_bytes
};

}  // namespace endcap
