#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace endcap {

inline constexpr size_t kBlockValues = 64;

// Where in a block the coefficients are that come in zigzag order. What is beyond the last belongs
// to its place: a damaged run may reach there, and HuffmanEntry::kEnd.
inline constexpr std::array<uint8_t, 2 * kBlockValues> kNaturalOrder = [] {
  constexpr int kBlockSide = 8;
  std::array<uint8_t, 2 * kBlockValues> order{};
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

}  // namespace endcap
