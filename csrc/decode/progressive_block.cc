#include "decode/progressive_block.h"

#include "decode/huffman_values-inl.h"
#include "decode/zigzag_order.h"

namespace endcap {

bool DecodeFirstDc(ScanBits& bits, const HuffmanTable& table, unsigned low, int32_t& last_dc,
                   int16_t* coefficients) {
  int32_t difference = 0;
  if (!TakeDcDifference(bits, table, difference)) return false;
  if (__builtin_add_overflow(last_dc, difference, &last_dc)) return false;
  coefficients[0] = static_cast<int16_t>(static_cast<uint32_t>(last_dc) << low);
  return true;
}

void DecodeDcBit(ScanBits& bits, unsigned low, int16_t* coefficients) {
  bits.Fill();
  const auto one = static_cast<unsigned>(bits.bits >> 63);
  coefficients[0] = static_cast<int16_t>(coefficients[0] | static_cast<int>(one << low));
  bits.Drop(1);
}

bool DecodeFirstAc(ScanBits& kept, const HuffmanTable& table, const SpectralBand& band,
                   uint32_t& blocks_to_pass, const ProgressiveBlock& block) {
  if (blocks_to_pass > 0) {
    --blocks_to_pass;
    return true;
  }
  ScanBits bits = kept;  // in registers
  uint64_t nonzero = *block.nonzero;
  const auto put = [&](size_t k, int value) {
    const auto shifted = static_cast<int16_t>(static_cast<uint32_t>(value) << band.low);
    block.coefficients[kNaturalOrder[k]] = shifted;
    nonzero = shifted != 0 ? nonzero | PlaceBit(k) : nonzero & ~PlaceBit(k);
  };
  const auto end = [&](unsigned run) { blocks_to_pass = TakeBlocks(bits, run) - 1; };
  const bool good = TakeAc(bits, table, band.first - 1, band.last, put, end);
  *block.nonzero = nonzero;
  kept = bits;
  return good;
}

}  // namespace endcap
