#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "decode/huffman_block.h"
#include "decode/inverse_dct.h"
#include "decode/jpeg_frame.h"
#include "decode/jpeg_tables.h"

namespace endcap {

// Where a decoder puts the samples of one row of MCUs: for each component that is needed the first
// of its rows, JpegComponent::rows_per_mcu of them, which have room for all MCUs.
using PlaneRows = std::array<SampleBlock, kMaxJpegComponents>;

// The inverse DCT of groups of blocks, by the kernels of the instruction set in use: how a group
// and its quantization table lie in memory, and groups that go beyond the last block of a row.
class GroupTransform {
 public:
  static constexpr size_t kGroupValues = kBlockValues * kMaxBlocksPerGroup;

  GroupTransform() noexcept;

  // Blocks of a group.
  int blocks() const noexcept { return kernels_.blocks; }
  // The place of a group's first block where the coefficient at a place in zigzag order is; those
  // of the next block are kBlockSide places behind.
  const PlaceOrder& order() const noexcept { return order_; }
  // The steps once for each block of a group.
  void FillQuantization(const JpegTables::Quantization& table, int16_t* quantization) const;

  // The transform of whole groups of a component.
  InverseDct For(const JpegComponent& component) const noexcept {
    return kernels_.For(component.block_size);
  }

  // As InverseDct, where the first `count` blocks of the group are in the plane.
  void Run(const JpegComponent& component, int16_t* coefficients, const int16_t* quantization,
           int last_place, int count, SampleBlock to) {
    if (count == kernels_.blocks) [[likely]] {
      For(component)(coefficients, quantization, last_place, to);
    } else {
      RunInPart(component, coefficients, quantization, last_place, count, to);
    }
  }

 private:
  void RunInPart(const JpegComponent& component, int16_t* coefficients, const int16_t* quantization,
                 int last_place, int count, SampleBlock to);

  InverseDctKernels kernels_ = FastestInverseDct();
  PlaceOrder order_;
  static constexpr size_t kSpareStride = size_t{kMaxBlockSize} * kMaxBlocksPerGroup;
  alignas(64) std::array<uint8_t, kSpareStride * kMaxBlockSize> spare_{};
};

inline GroupTransform::GroupTransform() noexcept {
  const int lanes = blocks() * kBlockSide;
  for (size_t k = 0; k < order_.size(); ++k) {
    const int place = kNaturalOrder[k];
    order_[k] = static_cast<uint8_t>(place / kBlockSide * lanes + place % kBlockSide);
  }
}

inline void GroupTransform::FillQuantization(const JpegTables::Quantization& table,
                                             int16_t* quantization) const {
  constexpr size_t kSide = kBlockSide;
  for (size_t row = 0; row < kSide; ++row) {
    for (int block = 0; block < blocks(); ++block) {
      for (size_t column = 0; column < kSide; ++column) {
        *quantization++ = static_cast<int16_t>(table.steps[row * kSide + column]);
      }
    }
  }
}

inline void GroupTransform::RunInPart(const JpegComponent& component, int16_t* coefficients,
                                      const int16_t* quantization, int last_place, int count,
                                      SampleBlock to) {
  const SampleBlock spare{spare_.data(), kSpareStride};
  For(component)(coefficients, quantization, last_place, spare);
  const auto side = static_cast<size_t>(component.block_size);
  for (size_t row = 0; row < side; ++row) {
    std::memcpy(to.Row(row), spare.Row(row), static_cast<size_t>(count) * side);
  }
}

}  // namespace endcap
