#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "decode/jpeg_tables.h"

namespace endcap {

// How many bits of the data a lookup takes at once: enough for nine in ten codes of a photograph
// with their values, few enough for two tables to stay in the first-level cache.
inline constexpr unsigned kHuffmanLookupBits = 10;
inline constexpr size_t kHuffmanLookups = size_t{1} << kHuffmanLookupBits;

// A code, without the value behind it.
struct HuffmanCode {
  unsigned length = 0;
  unsigned symbol = 0;

  unsigned run() const noexcept { return symbol >> 4; }
  unsigned value_bits() const noexcept { return symbol & 15; }
};

// Finds codes of any length. Source: ITU-T T.81, C.2 and F.2.2.3.
class HuffmanSearch {
 public:
  static constexpr unsigned kLongestCode = 16;

  HuffmanSearch() = default;  // without codes
  // Of codes that are not valid (HuffmanCodes::IsValid) those that fit are taken.
  explicit HuffmanSearch(const HuffmanCodes& codes) noexcept;

  // The code that begins `bits`, which has the next bits of the data from its highest on; its
  // length is 17 where there is none.
  HuffmanCode Find(uint64_t bits) const noexcept;

 private:
  std::array<uint32_t, kLongestCode + 1>
      limits_{};  // the first 16 bits that no code up to a length begins
  std::array<int32_t, kLongestCode + 1> offsets_{};  // from a code of a length to its symbol
  std::array<uint8_t, 256> symbols_{};
};

// The value of `size` bits: half of the range is negative. Source: ITU-T T.81, F.2.2.1.
constexpr int ExtendedValue(uint32_t bits, unsigned size) noexcept {
  const int value = static_cast<int>(bits);
  return size > 0 && (bits >> (size - 1) & 1U) == 0 ? value - (1 << size) + 1 : value;
}

// Calls visit(code, first, count) for each code that a lookup finds, in order: the lookups that
// begin with it are `count` from `first` on.
template <typename Visit>
void ForEachShortCode(const HuffmanCodes& codes, Visit visit) {
  size_t first = 0;
  size_t position = 0;
  for (unsigned length = 1; length <= kHuffmanLookupBits; ++length) {
    const size_t count = kHuffmanLookups >> length;
    for (int i = 0; i < codes.counts[length - 1]; ++i, ++position, first += count) {
      if (first >= kHuffmanLookups || position >= codes.symbols.size()) return;
      visit(HuffmanCode{length, codes.symbols[position]}, first, count);
    }
  }
}

// Calls visit(value, first, count) for each value that a lookup finds behind a code, whose lookups
// are `count` from `first` on. Returns false where it finds none: there is none, or it is cut off.
template <typename Visit>
bool ForEachValue(const HuffmanCode& code, size_t first, size_t count, Visit visit) {
  const unsigned bits = code.value_bits();
  if (bits == 0 || count >> bits == 0) return false;
  for (uint32_t i = 0; i < 1U << bits; ++i, first += count >> bits) {
    visit(ExtendedValue(i, bits), first, count >> bits);
  }
  return true;
}

// The meaning of the next kHuffmanLookupBits bits of the data. One of
//   values:  one or two codes with the values behind them
//   code:    a code alone, where its value is cut off or where it has none
//   nothing: a code that is longer; see HuffmanTable::Search
struct HuffmanEntry {
  bool nothing() const noexcept { return length == 0; }
  bool has_values() const noexcept { return first_step != 0; }
  // Of a code alone, whose symbol is in the place of the value.
  unsigned run() const noexcept { return static_cast<unsigned>(first_value) >> 4; }
  unsigned value_bits() const noexcept { return static_cast<unsigned>(first_value) & 15; }

  uint8_t length = 0;  // of all of it
  // How far the first value is from the one before, and the second from the first. Where there is
  // no second value it is the first again, at the same place.
  uint8_t first_step = 0;
  uint8_t second_step = 0;
  uint8_t first_length = 0;  // of the first value and its code
  int16_t first_value = 0;
  int16_t second_value = 0;
};

// A Huffman table of progressive scans. Source: ITU-T T.81, G.1.2; two values at a time are ours.
class HuffmanTable {
 public:
  static constexpr unsigned kLongestCode = HuffmanSearch::kLongestCode;
  // What the codes mean: DC differences; the highest bits of AC coefficients, where a code without
  // a value may end several blocks; or their lower bits, where each code is looked at alone.
  enum class Use { kDc, kBands, kBits };

  // The codes are valid (HuffmanCodes::IsValid); of others those that fit are taken.
  HuffmanTable(Use use, const HuffmanCodes& codes) noexcept;

  // `bits` has the next bits of the data from its highest on. Of a DC table: one value at most.
  HuffmanEntry Look(uint64_t bits) const noexcept {
    return entries_[static_cast<size_t>(bits >> (64 - kHuffmanLookupBits))];
  }
  // The code that begins `bits`, without its value; its length is 17 where there is none.
  HuffmanEntry Search(uint64_t bits) const noexcept { return MakeEntry(search_.Find(bits)); }

 private:
  static HuffmanEntry MakeEntry(const HuffmanCode& code) noexcept {
    return {.length = static_cast<uint8_t>(code.length),
            .first_value = static_cast<int16_t>(code.symbol)};
  }
  void JoinValues() noexcept;

  std::array<HuffmanEntry, kHuffmanLookups> entries_{};
  HuffmanSearch search_;
};

// The table of these codes. A thread keeps those of its last files: most of a camera's have the
// same, and making four takes as long as a hundred blocks do.
std::shared_ptr<const HuffmanTable> GetHuffmanTable(HuffmanTable::Use use,
                                                    const HuffmanCodes& codes);

}  // namespace endcap
