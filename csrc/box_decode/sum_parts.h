#pragma once

#include <array>
#include <cstddef>

#include "common/elementary_functions.h"

namespace endcap {

// Sums of powers are taken in parts (element i goes to part i modulo their number), and the upper
// half of the parts is added to the lower until one is left: an order that the threads of a GPU can
// keep as well.
inline constexpr int kSumParts = 256;   // a classifier's logits: by a block
inline constexpr int kRowSumParts = 8;  // a row of scores: by a group of a warp's lanes

template <size_t kParts>
double SumParts(std::array<double, kParts> parts) {
  static_assert((kParts & (kParts - 1)) == 0);
  for (size_t half = kParts / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  }
  return parts[0];
}

}  // namespace endcap
