#include "decode/huffman_block.h"

#include <array>
#include <cstddef>

namespace endcap {
namespace {

constexpr int kBlockSide = 8;
constexpr size_t kBlockValues = 64;

// Where in a block the coefficients are that come in zigzag order. What is beyond the last belongs
// to its place: a damaged run may reach there, and HuffmanEntry::kEnd.
constexpr std::array<uint8_t, kBlockValues + HuffmanEntry::kEnd> kNaturalOrder = [] {
  std::array<uint8_t, kBlockValues + HuffmanEntry::kEnd> order{};
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

// The entry of a code whose value the lookup does not tell; the code is dropped. False: a bad code.
inline bool TakeCode(ScanBits& bits, const HuffmanTable& table, HuffmanEntry& entry) {
  if (entry.nothing()) entry = table.Search(bits.bits);
  bits.Drop(entry.length());
  return entry.length() <= HuffmanTable::kLongestCode;
}

inline bool DecodeDc(ScanBits& bits, const HuffmanTable& table, int32_t& last) {
  bits.Fill();
  HuffmanEntry entry = table.Look(bits.bits);
  int difference = 0;
  if (entry.has_values()) {
    bits.Drop(entry.length());
    difference = entry.first_value();
  } else {
    if (!TakeCode(bits, table, entry)) return false;
    difference = TakeValue(bits, entry.value_bits());
  }
  // A damaged file's sum may leave the type; it wraps.
  last = static_cast<int32_t>(static_cast<uint32_t>(last) + static_cast<uint32_t>(difference));
  return true;
}

// Reads the AC coefficients, and puts them into `block` where kStore. False: a bad code.
template <bool kStore>
inline bool DecodeAc(ScanBits& bits, const HuffmanTable& table, int16_t* block) {
  size_t k = 0;
  // Takes an entry's values; where the first is the last of the block, the second is the next
  // one's.
  const auto take = [&](const HuffmanEntry& entry) {
    k += entry.first_step();
    if (kStore) block[kNaturalOrder[k]] = static_cast<int16_t>(entry.first_value());
    if (k >= kBlockValues - 1) {
      bits.Drop(entry.first_length());
      return;
    }
    k += entry.second_step();
    if (kStore) block[kNaturalOrder[k]] = static_cast<int16_t>(entry.second_value());
    bits.Drop(entry.length());
  };
  while (k < kBlockValues - 1) {
    bits.Fill();
    HuffmanEntry entry = table.Look(bits.bits);
    // Two of at most kHuffmanLookupBits leave enough of 56 bits for any other.
    if (entry.has_values()) {
      take(entry);
      if (k >= kBlockValues - 1) break;
      entry = table.Look(bits.bits);
      if (entry.has_values()) {
        take(entry);
        if (k >= kBlockValues - 1) break;
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
      const int value = TakeValue(bits, entry.value_bits());
      if (kStore) block[kNaturalOrder[k]] = static_cast<int16_t>(value);
    } else if (entry.run() == 15) {
      k += 16;
    } else {
      break;
    }
  }
  return true;
}

}  // namespace

bool DecodeHuffmanBlock(ScanBits& kept, const HuffmanTable& dc, const HuffmanTable& ac,
                        int32_t& last_dc, int16_t* block) {
  ScanBits bits = kept;  // in registers
  bool good = DecodeDc(bits, dc, last_dc);
  if (good && block != nullptr) {
    block[0] = static_cast<int16_t>(last_dc);
    good = DecodeAc<true>(bits, ac, block);
  } else if (good) {
    good = DecodeAc<false>(bits, ac, nullptr);
  }
  kept = bits;
  return good;
}

}  // namespace endcap
