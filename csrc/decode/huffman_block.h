#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "decode/huffman_table.h"
#include "decode/scan_bytes.h"

// Huffman-coded 8x8 blocks: the loop that sequential and progressive files share, and the blocks of
// sequential files.

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

// The value of the next `size` bits, which are dropped.
inline int TakeValue(ScanBits& bits, unsigned size) {
  const auto value = static_cast<int>(bits.bits >> 1 >> (63 - size));
  const auto negative = static_cast<int>(~static_cast<int64_t>(bits.bits) >> 63);
  bits.Drop(size);
  return value - (negative & ((1 << size) - 1));
}

// The entry of a code whose value is not in the lookup table; the code is dropped. False: a bad
// code.
inline bool TakeCode(ScanBits& bits, const HuffmanTable& table, HuffmanEntry& entry) {
  if (entry.nothing()) entry = table.Search(bits.bits);
  bits.Drop(entry.length());
  return entry.length() <= HuffmanTable::kLongestCode;
}

// The number of blocks that a progressive scan's code with this run means: 2^run, and as many as
// the next bits say.
inline uint32_t TakeEobRun(ScanBits& bits, unsigned run) {
  const auto more = static_cast<uint32_t>(bits.bits >> 1 >> (63 - run));
  bits.Drop(run);
  return (1U << run) + more;
}

// From the last DC coefficient of a component to this one. False: a bad code.
inline bool TakeDcDifference(ScanBits& bits, const HuffmanTable& table, int32_t& difference) {
  bits.Fill();
  HuffmanEntry entry = table.Look(bits.bits);
  if (entry.has_values()) {
    bits.Drop(entry.length());
    difference = entry.first_value();
  } else {
    if (!TakeCode(bits, table, entry)) return false;
    difference = TakeValue(bits, entry.value_bits());
  }
  return true;
}

// Reads the AC coefficients of a block behind the place `k`, up to `last`: put(place, value) for
// each, in order; the last may come twice. A run that a damaged file has too long goes beyond
// `last`. Where a code says that no more follow, end(its run) is called. False: a bad code.
template <typename Put, typename End>
inline bool TakeAc(ScanBits& bits, const HuffmanTable& table, size_t k, size_t last, Put put,
                   End end) {
  // Takes an entry's values; where the first is the last of the block, the second is the next
  // one's.
  const auto take = [&](const HuffmanEntry& entry) {
    k += entry.first_step();
    put(k, entry.first_value());
    if (k >= last) {
      bits.Drop(entry.first_length());
      return;
    }
    k += entry.second_step();
    put(k, entry.second_value());
    bits.Drop(entry.length());
  };
  while (k < last) {
    bits.Fill();
    HuffmanEntry entry = table.Look(bits.bits);
    // Two of at most kHuffmanLookupBits leave enough of 56 bits for any other.
    if (entry.has_values()) {
      take(entry);
      if (k >= last) break;
      entry = table.Look(bits.bits);
      if (entry.has_values()) {
        take(entry);
        if (k >= last) break;
        entry = table.Look(bits.bits);
        if (entry.has_values()) {
          take(entry);
          continue;
        }
      }
    }
    if (!TakeCode(bits, table, entry)) return false;
    if (entry.value_bits() > 0) {
      k += entry.run() + 1;
      put(k, TakeValue(bits, entry.value_bits()));
    } else if (entry.run() == 15) {
      k += 16;
    } else {
      end(entry.run());
      break;
    }
  }
  return true;
}

}  // namespace endcap
