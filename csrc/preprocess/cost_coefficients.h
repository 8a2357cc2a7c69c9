#pragma once

#include <array>

#include "endcap/cost.h"

// Made by `python -m benchmarks.cost fit`, which says how: change it there.

namespace endcap {

// Nanoseconds for one of each CostTerm, in their order.
inline constexpr std::array<double, kCostTermCount> kCostCoefficientsNs = {
    3.476e+04,  // image
    3.445,      // sequential_bytes
    16.99,      // sequential_blocks
    8.112,      // progressive_bytes
    11.18,      // scanned_blocks
    1.198,      // transformed_blocks
    4.597,      // png_bytes
    15.82,      // png_pixels
    40.35,      // webp_bytes
    4.813,      // webp_pixels
    9.208,      // gif_pixels
    2.334,      // other_pixels
    0.2899,     // converted_pixels
    0,          // two_taps
    0.2741,     // pillow_taps
    0.3201,     // float_taps
    0.4544,     // turned_pixels
    3.012,      // oriented_pixels
    0,          // tensor_elements
    0.05573,    // tensor_bytes
};

}  // namespace endcap
