#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace endcap {

// The most blocks in a group, which an inverse DCT transforms at once.
inline constexpr int kMaxBlocksPerGroup = 4;

// The rows of a block that the coefficients up to a place in zigzag order lie in, and those of them
// that an inverse DCT reads.
constexpr int RowsUpTo(int last_place) {
  // The first ten lie in the first four rows and columns.
  return last_place == 0 ? 1 : last_place <= 9 ? 4 : 8;
}

// The inverse DCT of a group of adjacent blocks of one component, to 8x8 samples a block or fewer.
//
// coefficients: 64 a block, aligned to a vector: row r of block b at 8 * (r * blocks + b). They are
//   set to 0 afterwards.
// quantization: the component's table in the same order, once for each block.
// last_place: the greatest place, in zigzag order, of a coefficient that is not 0. What it proves
//   to be 0 is not computed.
// rows: of the component's plane, as many as a block has; the samples of all blocks are written
//   from `column` on.
using InverseDct = void (*)(int16_t* coefficients, const int16_t* quantization, int last_place,
                            uint8_t* const* rows, size_t column);

struct InverseDctKernels {
  int blocks = 1;                       // of a group
  std::array<InverseDct, 4> by_size{};  // to 1, 2, 4 and 8 samples a side of a block

  InverseDct For(int block_size) const noexcept {
    return by_size[static_cast<size_t>(std::countr_zero(static_cast<unsigned>(block_size)))];
  }
};

// The kernels of the fastest instruction set: those of libjpeg-turbo for JDCT_ISLOW on this CPU,
// bit for bit, also where coefficients of a damaged file leave the range of their types. There x86
// and Arm differ, as the library's own code does.
InverseDctKernels FastestInverseDct();

}  // namespace endcap
