#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "decode/inverse_dct.h"

namespace endcap {

// The inverse DCT of a block of 8x8 coefficients to `size` x `size` samples, where size is 3, 5, 6
// or 10, as libjpeg-turbo's jidctint.c defines it: sums of integer products, first along
// columns, then along rows. Sizes below 8 read the first `size` rows and columns.

// What a coefficient of each frequency adds to one value. Of the value as far from the other end,
// even frequencies add the same and odd ones the opposite.
using DctFactors = std::array<int16_t, 8>;

// Those of the first half of the values, and of the one in the middle. The factors are
// libjpeg-turbo's, summed up where several meet the same coefficient: sqrt(2) * cos((2 * value + 1)
// * frequency * pi / (2 * size)) in 13 bits, but for their roundings and without the sqrt(2) for
// frequency 0.
template <int size>
inline constexpr std::array<DctFactors, (size + 1) / 2> kDctFactors{};

template <>
inline constexpr std::array<DctFactors, 2> kDctFactors<3>{{
    {8192, 10033, 5793, 0, 0, 0, 0, 0},
    {8192, 0, -11586, 0, 0, 0, 0, 0},
}};

template <>
inline constexpr std::array<DctFactors, 3> kDctFactors<5>{{
    {8192, 11019, 9372, 6810, 3580, 0, 0, 0},
    {8192, 6810, -3580, -11018, -9372, 0, 0, 0},
    {8192, 0, -11584, 0, 11584, 0, 0, 0},
}};

template <>
inline constexpr std::array<DctFactors, 3> kDctFactors<6>{{
    {8192, 11190, 10033, 8192, 5793, 2998, 0, 0},
    {8192, 8192, 0, -8192, -11586, -8192, 0, 0},
    {8192, 2998, -10033, -8192, 5793, 11190, 0, 0},
}};

template <>
inline constexpr std::array<DctFactors, 5> kDctFactors<10>{{
    {8192, 11443, 11019, 10322, 9373, 8192, 6810, 5260},
    {8192, 10323, 6810, 1812, -3580, -8192, -11018, -11442},
    {8192, 8192, 0, -8192, -11586, -8192, 0, 8192},
    {8192, 5260, -6810, -11442, -3580, 8192, 11018, 1812},
    {8192, 1812, -11019, -5260, 9373, 8192, -6810, -10322},
}};

// The greatest factor there is, by its magnitude.
inline constexpr int kMaxDctFactor = 11586;

// The transform of one size.
struct ScaledDct {
  size_t size;
  std::span<const DctFactors> factors;

  // How many there are in each direction.
  size_t frequencies() const noexcept { return size < 8 ? size : 8; }
};

// The transform in 64 bits, of blocks whose coefficients leave the range of an image: slow, and
// right for all. blocks: of the group; as InverseDct otherwise, but clears no coefficients.
void InverseDctInWideIntegers(const ScaledDct& dct, const int16_t* coefficients,
                              const int16_t* quantization, int blocks, SampleBlock to);

}  // namespace endcap
