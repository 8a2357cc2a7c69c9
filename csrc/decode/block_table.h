#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "decode/huffman_table.h"
#include "decode/jpeg_tables.h"

namespace endcap {

// A Huffman table of sequential scans, for ReadBlocks: what the next bits of the data mean for a
// block. Source: ITU-T T.81, F.2.2; two coefficients at a time are ours.
class BlockTable {
 public:
  enum class Use { kDc, kAc };

  // What the next bits are:
  //   values:  one or two codes with the values behind them, or the end
  //   cut:     a code whose value is cut off
  //   unknown: a code that is longer than a lookup
  //
  // Steps are places in zigzag order. A step without a coefficient leads past the block from any
  // place in it: the reader stores there unconditionally, and PlaceOrder maps it to the last place.
  struct Entry {
    static constexpr uint8_t kEnds = 0x80;
    static constexpr unsigned kBeyond = 128;
    static constexpr unsigned kNoValue = 192;

    bool has_values() const noexcept { return first_step < kNoValue; }
    bool is_cut() const noexcept { return first != 0 && !has_values(); }
    bool ends() const noexcept { return (length & kEnds) != 0; }
    // Of a value that is cut off: the bits of its code, and its own.
    unsigned code_bits() const noexcept { return static_cast<unsigned>(first); }
    unsigned value_bits() const noexcept { return static_cast<unsigned>(second); }

    uint8_t length = 0;              // of all values; with kEnds where they are the part's last
    uint8_t first_step = kNoValue;   // from the last coefficient to the first value
    uint8_t second_step = kNoValue;  // and to the second; where there is none, the first again
    uint8_t step = kNoValue;  // to the place after this lookup; plus kNoValue where it is cut off
    int16_t first = 0;
    int16_t second = 0;
  };
  static_assert(sizeof(Entry) == 8);

  // The codes are valid (HuffmanCodes::IsValid); of others those that fit are taken.
  BlockTable(Use use, const HuffmanCodes& codes) noexcept;
  // Without codes: no entry has values.
  BlockTable() noexcept : is_dc_(false) {}

  bool is_dc() const noexcept { return is_dc_; }
  // `bits` has the next bits of the data from its highest on.
  const Entry& Look(uint64_t bits) const noexcept { return entries()[LookupOf(bits)]; }
  const Entry* entries() const noexcept { return entries_.data(); }
  static size_t LookupOf(uint64_t bits) noexcept {
    return static_cast<size_t>(bits >> (64 - kHuffmanLookupBits));
  }
  const HuffmanSearch& search() const noexcept { return search_; }

 private:
  void EnterCode(const HuffmanCode& code, size_t first, size_t count) noexcept;
  void JoinValues() noexcept;

  std::array<Entry, kHuffmanLookups> entries_{};
  HuffmanSearch search_;
  bool is_dc_;
};

// The table of these codes. A thread keeps those of its last files: most of a camera's have the
// same, and making four takes as long as a hundred blocks do.
std::shared_ptr<const BlockTable> GetBlockTable(BlockTable::Use use, const HuffmanCodes& codes);

}  // namespace endcap
