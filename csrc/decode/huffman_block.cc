#include "decode/huffman_block.h"

namespace endcap {
namespace {

// Reads a DC coefficient. False: a bad code. Inlined, so that its caller's bits stay in registers.
[[gnu::always_inline]] inline bool TakeDc(ScanBits& bits, const HuffmanTable& table,
                                          int32_t& last_dc) {
  int32_t difference = 0;
  const bool good = TakeDcDifference(bits, table, difference);
  // A damaged file's sum may leave the type; it wraps.
  last_dc =
      static_cast<int32_t>(static_cast<uint32_t>(last_dc) + static_cast<uint32_t>(difference));
  return good;
}

}  // namespace

bool DecodeHuffmanBlock(ScanBits& kept, const HuffmanTable& dc, const HuffmanTable& ac,
                        int32_t& last_dc, int16_t* block, bool keeps_others) {
  constexpr size_t kLast = kBlockValues - 1;
  const auto end = [](unsigned /*run*/) {};
  ScanBits bits = kept;  // in registers
  bool good = TakeDc(bits, dc, last_dc);
  if (good && block != nullptr) {
    block[0] = static_cast<int16_t>(last_dc);
    const auto store = [block](size_t k, int value) {
      block[kNaturalOrder[k]] = static_cast<int16_t>(value);
    };
    const auto store_values = [store](size_t k, int value) {
      if (value != 0) store(k, value);  // 0 is an end, see HuffmanEntry::End
    };
    good = keeps_others ? TakeAc(bits, ac, 0, kLast, store_values, end)
                        : TakeAc(bits, ac, 0, kLast, store, end);
  } else if (good) {
    good = TakeAc(bits, ac, 0, kLast, [](size_t /*k*/, int /*value*/) {}, end);
  }
  kept = bits;
  return good;
}

int DecodeHuffmanBlock(ScanBits& kept, const HuffmanTable& dc, const HuffmanTable& ac,
                       int32_t& last_dc, const OrderedBlock& ordered) {
  constexpr size_t kLast = kBlockValues - 1;
  int16_t* const block = ordered.block;
  const uint8_t* const order = ordered.order;
  ScanBits bits = kept;  // in registers
  bool good = TakeDc(bits, dc, last_dc);
  size_t last_place = 0;
  if (good) {
    block[0] = static_cast<int16_t>(last_dc);
    const auto store = [block, order, &last_place](size_t k, int value) {
      block[order[k]] = static_cast<int16_t>(value);
      last_place = k <= kLast ? k : last_place;  // 0 behind it is an end, see HuffmanEntry::End
    };
    good = TakeAc(bits, ac, 0, kLast, store, [](unsigned /*run*/) {});
  }
  kept = bits;
  return good ? static_cast<int>(last_place) : kBadCode;
}

}  // namespace endcap
