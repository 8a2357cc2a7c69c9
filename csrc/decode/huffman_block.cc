#include "decode/huffman_block.h"

namespace endcap {

bool SkipSequentialBlock(ScanBits& kept, const HuffmanTable& dc, const HuffmanTable& ac,
                         int32_t& last_dc) {
  ScanBits bits = kept;  // in registers
  const bool good =
      TakeDc(bits, dc, last_dc) && TakeAc(
                                       bits, ac, 0, kBlockValues - 1,
                                       [](size_t /*k*/, int /*value*/) {}, [](unsigned /*run*/) {});
  kept = bits;
  return good;
}

}  // namespace endcap
