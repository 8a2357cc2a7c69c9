#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "decode/scan_bytes.h"

// What the readers of sequential and of progressive blocks share.

namespace endcap {

inline constexpr size_t kBlockValues = 64;

// Where in a block the coefficients are that come in zigzag order. What is beyond the last belongs
// to its place: a damaged run may reach there, and BlockTable::Entry::kBeyond.
using PlaceOrder = std::array<uint8_t, 4 * kBlockValues>;
inline constexpr PlaceOrder kNaturalOrder = [] {
  constexpr int kBlockSide = 8;
  PlaceOrder order{};
  order.fill(kBlockValues - 1);
  int row = 0;
  int column = 0;
  for (size_t i = 0; i < kBlockValues; ++i) {
    order[i] = static_cast<uint8_t>(row * kBlockSide + column);
    const bool up = (row + column) % 2 == 0;
    int& ahead = up ? column : row;
    int& back = up ? row : column;
    if (ahead == kBlockSide - 1) {
      ++back;
    } else {
      ++ahead;
      if (back > 0) --back;
    }
  }
  return order;
}();

// A sum of DC differences, which of a damaged file may leave the type.
inline int32_t WrappedSum(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

// The value of the next `size` bits, which are dropped.
inline int TakeValue(ScanBits& bits, unsigned size) {
  const auto value = static_cast<int>(bits.bits >> 1 >> (63 - size));
  const auto negative = static_cast<int>(~static_cast<int64_t>(bits.bits) >> 63);
  bits.Drop(size);
  return value - (negative & ((1 << size) - 1));
}

}  // namespace endcap
