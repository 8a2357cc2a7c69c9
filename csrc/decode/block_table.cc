#include "decode/block_table.h"

#include <algorithm>

#include "decode/jpeg_tables.h"

namespace endcap {
namespace {

using Entry = BlockTable::Entry;

constexpr unsigned kRunOfZeros = 15;

Entry MakeValue(unsigned length, unsigned step, int value) {
  const auto byte = static_cast<uint8_t>(step);
  const auto stored = static_cast<int16_t>(value);
  return {static_cast<uint8_t>(length), byte, byte, byte, stored, stored};
}

// A code without a value, of a table of AC coefficients.
Entry MakeZeros(const HuffmanCode& code) {
  Entry entry = MakeValue(code.length, Entry::kBeyond, 0);
  if (code.run() == kRunOfZeros) {
    entry.step = kRunOfZeros + 1;
  } else {
    entry.step = 0;
    entry.length |= Entry::kEnds;
  }
  return entry;
}

Entry MakeCut(const HuffmanCode& code, unsigned step) {
  Entry entry;
  entry.step = static_cast<uint8_t>(Entry::kNoValue + step);
  entry.first = static_cast<int16_t>(code.length);
  entry.second = static_cast<int16_t>(code.value_bits());
  return entry;
}

unsigned LengthOf(const Entry& entry) { return entry.length & ~unsigned{Entry::kEnds}; }

// A value, and the first of what follows it, which may be the end or zeros.
Entry Join(const Entry& entry, const Entry& next) {
  Entry joined = entry;
  joined.length = static_cast<uint8_t>(entry.length + next.length);
  joined.step = static_cast<uint8_t>(entry.step + next.step);
  if (next.first_step < Entry::kBeyond) {
    joined.second_step = joined.step;
    joined.second = next.first;
  }
  return joined;
}

}  // namespace

BlockTable::BlockTable(Use use, const HuffmanCodes& codes) noexcept
    : search_(codes), is_dc_(use == Use::kDc) {
  ForEachShortCode(codes, [this](const HuffmanCode& code, size_t first, size_t count) {
    EnterCode(code, first, count);
  });
  if (!is_dc_) JoinValues();
}

void BlockTable::EnterCode(const HuffmanCode& code, size_t first, size_t count) noexcept {
  const auto fill = [this](size_t lookup, size_t lookups, const Entry& entry) {
    std::fill_n(entries_.begin() + static_cast<ptrdiff_t>(lookup), lookups, entry);
  };
  const unsigned step = is_dc_ ? 0 : code.run() + 1;
  const uint8_t ends = is_dc_ ? Entry::kEnds : 0;
  const auto enter = [&](int value, size_t lookup, size_t lookups) {
    Entry entry = MakeValue(code.length + code.value_bits(), step, value);
    entry.length |= ends;
    fill(lookup, lookups, entry);
  };
  if (code.value_bits() == 0) {
    is_dc_ ? enter(0, first, count) : fill(first, count, MakeZeros(code));
  } else if (!ForEachValue(code, first, count, enter)) {
    Entry entry = MakeCut(code, step);
    entry.length |= ends;
    fill(first, count, entry);
  }
}

// Adds to each value what follows it, where that is seen too.
void BlockTable::JoinValues() noexcept {
  std::array<Entry, kHuffmanLookups> single = entries_;
  for (size_t i = 0; i < kHuffmanLookups; ++i) {
    const Entry& entry = single[i];
    if (!entry.has_values() || entry.ends()) continue;
    const Entry& next = single[(i << entry.length) % kHuffmanLookups];
    if (next.has_values() && entry.length + LengthOf(next) <= kHuffmanLookupBits) {
      entries_[i] = Join(entry, next);
    }
  }
}

std::shared_ptr<const BlockTable> GetBlockTable(BlockTable::Use use, const HuffmanCodes& codes) {
  thread_local TableCache<BlockTable> cache;
  return cache.Get(use, codes);
}

}  // namespace endcap
