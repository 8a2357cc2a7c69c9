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
class HuffmanEntry {
 public:
  constexpr HuffmanEntry() = default;
  static constexpr HuffmanEntry Code(unsigned length, unsigned symbol) noexcept {
    return HuffmanEntry(uint64_t{length} | uint64_t{symbol} << kFirstValue);
  }
  // `length`: of the code and its value.
  static constexpr HuffmanEntry Value(unsigned length, unsigned step, int value) noexcept {
    return HuffmanEntry(uint64_t{length} | uint64_t{step} << kFirstStep |
                        uint64_t{length} << kFirstLength | Bits(value) << kFirstValue |
                        Bits(value) << kSecondValue);
  }
  // This value and the first of the next entry.
  constexpr HuffmanEntry With(const HuffmanEntry& next) const noexcept {
    return HuffmanEntry((bits_ & kFirstMask) | uint64_t{length() + next.first_length()} |
                        uint64_t{next.first_step()} << kSecondStep |
                        Bits(next.first_value()) << kSecondValue);
  }

  constexpr bool nothing() const noexcept { return bits_ == 0; }
  constexpr bool has_values() const noexcept { return first_step() != 0; }
  // Of all of it, and without the second value.
  constexpr unsigned length() const noexcept { return static_cast<unsigned>(bits_ & kLengthMask); }
  constexpr unsigned first_length() const noexcept { return Byte(kFirstLength); }
  // How far the first value is from the one before, and the second from the first. Where there is
  // no second value it is the first again, at the same place.
  constexpr unsigned first_step() const noexcept { return Byte(kFirstStep); }
  constexpr unsigned second_step() const noexcept { return Byte(kSecondStep); }
  constexpr int first_value() const noexcept { return static_cast<int16_t>(bits_ >> kFirstValue); }
  constexpr int second_value() const noexcept {
    return static_cast<int16_t>(bits_ >> kSecondValue);
  }
  // Of a code alone.
  constexpr unsigned run() const noexcept { return Byte(kFirstValue) >> 4; }
  constexpr unsigned value_bits() const noexcept { return Byte(kFirstValue) & 15; }

 private:
  static constexpr unsigned kFirstStep = 8;
  static constexpr unsigned kSecondStep = 16;
  static constexpr unsigned kFirstLength = 24;
  static constexpr unsigned kFirstValue = 32;
  static constexpr unsigned kSecondValue = 48;
  static constexpr uint64_t kLengthMask = 63;
  static constexpr uint64_t kFirstMask = 0xFFFF'FF00'FF00;

  static constexpr uint64_t Bits(int value) noexcept { return static_cast<uint16_t>(value); }
  constexpr explicit HuffmanEntry(uint64_t bits) noexcept : bits_(bits) {}
  constexpr unsigned Byte(unsigned shift) const noexcept {
    return static_cast<uint8_t>(bits_ >> shift);
  }

  uint64_t bits_ = 0;
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
  HuffmanEntry Search(uint64_t bits) const noexcept {
    const HuffmanCode code = search_.Find(bits);
    return HuffmanEntry::Code(code.length, code.symbol);
  }

 private:
  void JoinValues() noexcept;

  std::array<HuffmanEntry, kHuffmanLookups> entries_{};
  HuffmanSearch search_;
};

// The table of these codes. A thread keeps those of its last files: most of a camera's have the
// same, and making four takes as long as a hundred blocks do.
std::shared_ptr<const HuffmanTable> GetHuffmanTable(HuffmanTable::Use use,
                                                    const HuffmanCodes& codes);

}  // namespace endcap
