#pragma once

#include <cstddef>
#include <cstdint>

namespace endcap {

// The most blocks in a group, which an inverse DCT transforms at once.
inline constexpr int kMaxBlocksPerGroup = 4;

// The inverse DCT of a group of adjacent blocks of one component.
//
// coefficients: 64 a block, aligned to a vector: row r of block b at 8 * (r * blocks + b). They are
//   set to 0 afterwards.
// quantization: the component's table in the same order, once for each block.
// last_place: the greatest place, in zigzag order, of a coefficient that is not 0. What it proves
//   to be 0 is not computed.
// rows: of the component's plane, eight of them; 8 * blocks samples are written from `column` on.
using InverseDct = void (*)(int16_t* coefficients, const int16_t* quantization, int last_place,
                            uint8_t* const* rows, size_t column);

struct InverseDctKernel {
  int blocks = 1;  // of a group
  InverseDct run = nullptr;
};

// The kernel of the fastest instruction set: libjpeg-turbo's JDCT_ISLOW on this CPU, bit for bit,
// also where coefficients of a damaged file leave the range of their types. There x86 and Arm
// differ, as the library's own code does.
InverseDctKernel FastestInverseDct();

}  // namespace endcap
