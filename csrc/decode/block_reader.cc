#include "decode/block_reader.h"

#include <algorithm>
#include <cstring>

#include "decode/huffman_block.h"

namespace endcap {
namespace {

constexpr size_t kLast = kBlockValues - 1;

using Entry = BlockTable::Entry;

// Stops the compiler from turning what depends on this value into a branch, or from computing it
// again. Emits no instruction.
template <typename Value>
[[gnu::always_inline]] inline Value Opaque(Value value) {
  __asm__("" : "+r"(value));
  return value;
}

// An entry's length and flag, and more bytes above.
[[gnu::always_inline]] inline uint64_t LoadWord(const Entry* entry) {
  uint64_t word = 0;
  std::memcpy(&word, entry, sizeof(word));
  return word;
}

// Reads one code: one too long for a lookup, or the last of a block whose lookup also decoded codes
// behind it. `place` is of the last coefficient. Returns whether the part ends.
bool ReadCode(ScanReader& reader, ScanBits& bits, BlockPart& part, size_t& place,
              const PlaceOrder& order) {
  const HuffmanCode code = part.table->search().Find(bits.bits);
  bits.Drop(code.length);
  if (code.length > HuffmanSearch::kLongestCode) {
    reader.bits() = bits;
    reader.EndBlock(/*may_end=*/true, /*good=*/false);
  }
  if (part.table->is_dc()) {
    part.block[0] = static_cast<int16_t>(TakeValue(bits, code.value_bits()));
    return true;
  }
  if (code.value_bits() > 0) {
    place += code.run() + 1;
    part.block[order[place]] = static_cast<int16_t>(TakeValue(bits, code.value_bits()));
  } else if (code.run() == 15) {
    place += 16;
  } else {
    part.last_place = static_cast<uint8_t>(place);
    return true;
  }
  part.last_place = kLast;
  return place >= kLast;
}

}  // namespace

const BlockTable& StopTable() noexcept {
  static const BlockTable table;
  return table;
}

// The next lookup waits for the last one's length, and for the table that it ends a part with or
// not: a load, a shift and a selection. All else is beside that chain, and must stay there.
void ReadBlocks(ScanReader& reader, BlockPart* parts, const PlaceOrder& order) {
  // In registers.
  ScanBits bits = reader.bits();
  BlockPart* part = parts;
  const Entry* entries = part->table->entries();
  int16_t* block = part->block;
  size_t place = 0;
  for (;;) {
    if (!reader.HasBytes(bits)) [[unlikely]]
      bits = reader.GetBytes(bits);
    bits.Fill();
    const Entry* entry = nullptr;
    size_t last_place = 0;
    // As many lookups as there are bits for.
#pragma GCC unroll 5
    for (int i = 0; i < 5; ++i) {
      const size_t lookup = BlockTable::LookupOf(bits.bits);
      const uint64_t word = LoadWord(entries + lookup);
      entry = entries + Opaque(lookup);
      last_place = place;
      block[order[place + entry->first_step]] = entry->first;
      block[order[place + entry->second_step]] = entry->second;
      place += entry->step;
      part->last_place = static_cast<uint8_t>(place);
      if (place >= kLast) [[unlikely]]
        goto code;
      bits.DropModulo64(word);
      const uint64_t ends = word & Entry::kEnds;
      const Entry* next_entries = Opaque(part[1].table->entries());
      entries = ends != 0 ? next_entries : entries;
      place = ends != 0 ? 0 : place;
      part += ends / Entry::kEnds;
      block = part->block;
    }
    continue;
  code:
    bits.Fill();
    bool ends = entry->ends();
    if (entry->is_cut()) [[likely]] {
      place -= Entry::kNoValue;
      bits.Drop(entry->code_bits());
      block[order[kLast]] = 0;  // what was stored there without asking
      block[order[place]] = static_cast<int16_t>(TakeValue(bits, entry->value_bits()));
      part->last_place = static_cast<uint8_t>(std::min(place, kLast));
      ends |= place >= kLast;
    } else {
      if (part->table == &StopTable()) break;
      block[order[kLast]] = 0;
      place = last_place;
      // A copy, so that `bits` can stay in registers.
      ScanBits kept = bits;
      ends = ReadCode(reader, kept, *part, place, order);
      bits = kept;
    }
    if (ends) {
      ++part;
      entries = part->table->entries();
      block = part->block;
      place = 0;
    }
  }
  bits.count %= 64;
  reader.bits() = bits;
  reader.EndBlock(/*may_end=*/true, /*good=*/true);
}

}  // namespace endcap
