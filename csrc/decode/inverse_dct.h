#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace endcap {

// The most blocks in a group, which an inverse DCT transforms at once.
inline constexpr int kMaxBlocksPerGroup = 4;

// The largest side of a block's samples that there is a transform to: chroma of images that are
// scaled down to 5/8. At 6/8 and 7/8, which `fast` does not choose, it would be 14.
inline constexpr int kMaxBlockSize = 10;

// Fractional bits of the transform's factors, and of the results of its first pass.
inline constexpr int kDctFactorBits = 13;
inline constexpr int kDctFirstPassBits = 2;

// A sample of its value around 0.
inline uint8_t ClampedSample(int32_t value) {
  return static_cast<uint8_t>(std::clamp(value, -128, 127) + 128);
}

// The same where only 10 bits are looked at, as in libjpeg-turbo's table of samples; those of an
// image have no more.
inline uint8_t WrappedSample(uint32_t value) {
  return ClampedSample(static_cast<int32_t>(value << 22) >> 22);
}

// The rows of a block that the coefficients up to a place in zigzag order lie in, and those of them
// that an inverse DCT reads.
constexpr int RowsUpTo(int last_place) {
  // The first ten lie in the first four rows and columns.
  return last_place == 0 ? 1 : last_place <= 9 ? 4 : 8;
}

// Samples in a component's plane, from the first of some rows on.
struct SampleBlock {
  uint8_t* data = nullptr;
  size_t stride = 0;  // bytes from row to row

  uint8_t* Row(size_t row) const noexcept { return data + row * stride; }
};

// The inverse DCT of a group of adjacent blocks of one component, to the samples of a block size.
//
// coefficients: 64 a block, aligned to a vector: row r of block b at 8 * (r * blocks + b). They are
//   set to 0 afterwards.
// quantization: the component's table in the same order, once for each block.
// last_place: the greatest place, in zigzag order, of a coefficient that is not 0. What it proves
//   to be 0 is not computed.
// to: the first sample of the first block; those of the other blocks follow in the same rows.
using InverseDct = void (*)(int16_t* coefficients, const int16_t* quantization, int last_place,
                            SampleBlock to);

struct InverseDctKernels {
  int blocks = 1;  // of a group
  // By the samples of a block's side: 1 to 6, 8 and 10.
  std::array<InverseDct, kMaxBlockSize + 1> by_size{};

  InverseDct For(int block_size) const noexcept { return by_size[static_cast<size_t>(block_size)]; }
  // Whether there is a transform to blocks of this size.
  bool Have(int block_size) const noexcept {
    return block_size <= kMaxBlockSize && For(block_size) != nullptr;
  }
};

// The kernels of the fastest instruction set: those of libjpeg-turbo for JDCT_ISLOW on this CPU,
// bit for bit, also where coefficients of a damaged file leave the range of their types. There, for
// 2, 4 and 8 samples, x86 and Arm differ, as the library's own code does.
InverseDctKernels FastestInverseDct();

}  // namespace endcap
