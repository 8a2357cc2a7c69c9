#include "decode/huffman_table.h"

#include <algorithm>

#include "decode/jpeg_tables.h"

namespace endcap {

HuffmanSearch::HuffmanSearch(const HuffmanCodes& codes) noexcept : symbols_(codes.symbols) {
  uint32_t code = 0;
  int position = 0;
  for (unsigned length = 1; length <= kLongestCode; ++length) {
    offsets_[length] = position - static_cast<int32_t>(code);
    for (int i = 0; i < codes.counts[length - 1] && code >> length == 0 && position < 256; ++i) {
      ++code;
      ++position;
    }
    limits_[length] = code << (kLongestCode - length);
    code <<= 1;
  }
}

HuffmanCode HuffmanSearch::Find(uint64_t bits) const noexcept {
  const auto code = static_cast<uint32_t>(bits >> (64 - kLongestCode));
  unsigned length = 1;
  while (length <= kLongestCode && code >= limits_[length]) ++length;
  if (length > kLongestCode) return {length, 0};
  const auto prefix = static_cast<int32_t>(code >> (kLongestCode - length));
  const int32_t position = prefix + offsets_[length];
  return {length, symbols_[static_cast<size_t>(position)]};
}

HuffmanTable::HuffmanTable(Use use, const HuffmanCodes& codes) noexcept : search_(codes) {
  ForEachShortCode(codes, [&](const HuffmanCode& code, size_t first, size_t count) {
    const auto enter = [&](int value, size_t lookup, size_t lookups) {
      const auto length = static_cast<uint8_t>(code.length + code.value_bits());
      const auto stored = static_cast<int16_t>(value);
      const HuffmanEntry entry = {length, static_cast<uint8_t>(code.run() + 1), 0, length, stored,
                                  stored};
      std::fill_n(entries_.begin() + static_cast<ptrdiff_t>(lookup), lookups, entry);
    };
    if (use == Use::kDc && code.value_bits() == 0) {
      enter(0, first, count);
    } else if (!ForEachValue(code, first, count, enter)) {
      std::fill_n(entries_.begin() + static_cast<ptrdiff_t>(first), count, MakeEntry(code));
    }
  });
  if (use == Use::kBands) JoinValues();
}

// Adds to each value what follows it, where that is seen too.
void HuffmanTable::JoinValues() noexcept {
  for (size_t i = 0; i < kHuffmanLookups; ++i) {
    HuffmanEntry& entry = entries_[i];
    if (!entry.has_values()) continue;
    const unsigned length = entry.first_length;
    const HuffmanEntry& next = entries_[(i << length) % kHuffmanLookups];
    if (next.has_values() && length + next.first_length <= kHuffmanLookupBits) {
      entry.length = static_cast<uint8_t>(length + next.first_length);
      entry.second_step = next.first_step;
      entry.second_value = next.first_value;
    }
  }
}

std::shared_ptr<const HuffmanTable> GetHuffmanTable(HuffmanTable::Use use,
                                                    const HuffmanCodes& codes) {
  thread_local TableCache<HuffmanTable> cache;
  return cache.Get(use, codes);
}

}  // namespace endcap
