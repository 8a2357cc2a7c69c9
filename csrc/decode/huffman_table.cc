#include "decode/huffman_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace endcap {

HuffmanTable::HuffmanTable(Use use, const HuffmanCodes& codes) noexcept : symbols_(codes.symbols) {
  uint32_t code = 0;
  int position = 0;
  for (unsigned length = 1; length <= kLongestCode; ++length) {
    offsets_[length] = position - static_cast<int32_t>(code);
    for (int i = 0; i < codes.counts[length - 1] && code >> length == 0 && position < 256;
         ++i, ++code, ++position) {
      Enter(use, code, length, symbols_[static_cast<size_t>(position)]);
    }
    // Codes of a length are behind all shorter ones, so that what is left is the end.
    if (length == kHuffmanLookupBits) {
      std::fill(entries_.begin() + static_cast<ptrdiff_t>(code), entries_.end(), HuffmanEntry());
    }
    limits_[length] = code << (kLongestCode - length);
    code <<= 1;
  }
  if (use == Use::kAc || use == Use::kBands) JoinValues();
}

// Fills the entries of all bits that begin with a code.
void HuffmanTable::Enter(Use use, uint32_t code, unsigned length, unsigned symbol) noexcept {
  if (length > kHuffmanLookupBits) return;
  const unsigned rest = kHuffmanLookupBits - length;
  const unsigned value_bits = symbol & 15;
  HuffmanEntry* first = entries_.data() + (static_cast<size_t>(code) << rest);
  HuffmanEntry entry = HuffmanEntry::Code(length, symbol);
  if (use == Use::kDc && value_bits == 0) entry = HuffmanEntry::Value(length, 1, 0);
  if (use == Use::kAc && value_bits == 0 && symbol >> 4 != 15) entry = HuffmanEntry::End(length);
  if (value_bits == 0 || value_bits > rest || use == Use::kCodes) {
    std::fill_n(first, size_t{1} << rest, entry);
    return;
  }
  const size_t same = size_t{1} << (rest - value_bits);
  for (uint32_t bits = 0; bits < 1U << value_bits; ++bits) {
    const int value = ExtendedValue(bits, value_bits);
    first = std::fill_n(first, same,
                        HuffmanEntry::Value(length + value_bits, (symbol >> 4) + 1, value));
  }
}

// Adds to each value what follows it, where that is seen too.
void HuffmanTable::JoinValues() noexcept {
  for (size_t i = 0; i < kEntries; ++i) {
    HuffmanEntry& entry = entries_[i];
    if (!entry.has_values() || entry.first_step() == HuffmanEntry::kEnd) continue;
    const unsigned length = entry.first_length();
    const HuffmanEntry& next = entries_[(i << length) % kEntries];
    if (next.has_values() && length + next.first_length() <= kHuffmanLookupBits) {
      entry = entry.With(next);
    }
  }
}

HuffmanEntry HuffmanTable::Search(uint64_t bits) const noexcept {
  const auto code = static_cast<uint32_t>(bits >> (64 - kLongestCode));
  unsigned length = 1;
  while (length <= kLongestCode && code >= limits_[length]) ++length;
  if (length > kLongestCode) return HuffmanEntry::Code(length, 0);
  const auto prefix = static_cast<int32_t>(code >> (kLongestCode - length));
  const int32_t position = prefix + offsets_[length];
  return HuffmanEntry::Code(length, symbols_[static_cast<size_t>(position)]);
}

namespace {

// Of two files, each with two tables for luma and two for chroma; a progressive one has about ten.
constexpr size_t kKept = 12;

struct Kept {
  HuffmanTable::Use use = HuffmanTable::Use::kDc;
  HuffmanCodes codes;
  std::shared_ptr<const HuffmanTable> table;
};

struct Cache {
  std::array<Kept, kKept> tables;
  size_t oldest = 0;
};

}  // namespace

std::shared_ptr<const HuffmanTable> GetHuffmanTable(HuffmanTable::Use use,
                                                    const HuffmanCodes& codes) {
  thread_local Cache cache;
  for (const Kept& kept : cache.tables) {
    if (kept.table != nullptr && kept.use == use && kept.codes == codes) return kept.table;
  }
  Kept made{use, codes, std::make_shared<const HuffmanTable>(use, codes)};
  Kept& oldest = cache.tables[cache.oldest];
  cache.oldest = (cache.oldest + 1) % kKept;
  oldest = std::move(made);
  return oldest.table;
}

}  // namespace endcap
