#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "decode/huffman_table.h"

namespace endcap::testing {

// Codes of random lengths for the symbols 0 to `wanted` - 1 in random order; never all ones.
inline HuffmanCodes RandomCodes(int wanted, std::mt19937& random) {
  HuffmanCodes codes;
  int room = 1;  // codes of the current length that are no prefix of another, nor have another
  int made = 0;
  for (size_t length = 1; length <= 16; ++length) {
    room *= 2;
    const int left = wanted - made;
    // Enough room must remain for the others, and for the code of all ones.
    const int most = std::min({room - 1, left, static_cast<int>(length) * 2});
    int count = length < 16 ? static_cast<int>(random() % (static_cast<unsigned>(most) + 1)) : left;
    while (((room - count) << (16 - length)) < left - count + 1) --count;
    codes.counts[length - 1] = static_cast<uint8_t>(count);
    room -= count;
    made += count;
  }
  EXPECT_EQ(made, wanted);
  for (int i = 0; i < wanted; ++i) codes.symbols[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
  std::shuffle(codes.symbols.begin(), codes.symbols.begin() + wanted, random);
  return codes;
}

// A code by the standard's own way: a bit at a time. Length 17: there is none.
inline HuffmanCode FindCode(const HuffmanCodes& codes, uint64_t bits) {
  uint32_t code = 0;
  uint32_t first = 0;
  size_t position = 0;
  for (unsigned length = 1; length <= 16; ++length) {
    code = static_cast<uint32_t>(bits >> (64 - length));
    const uint32_t count = codes.counts[length - 1];
    if (code - first < count) {
      return {length, codes.symbols[position + code - first]};
    }
    position += count;
    first = (first + count) << 1;
  }
  return {17, 0};
}

}  // namespace endcap::testing
