#include "decode/huffman_block.h"

namespace endcap {
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

}  // namespace endcap
