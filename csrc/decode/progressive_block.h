#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "decode/huffman_table.h"
#include "decode/scan_bytes.h"

namespace endcap {

// What a scan of a progressive file brings of each block: the coefficients from `first` to `last`
// in zigzag order, down to the bit `low`. Source: ITU-T T.81, G.1.2.
struct SpectralBand {
  size_t first = 0;
  size_t last = 0;
  unsigned low = 0;
};

// Places of a block in zigzag order as a set: the first is the highest bit, as in the data.
constexpr uint64_t PlacesFrom(size_t place) noexcept {
  return place < 64 ? ~uint64_t{0} >> place : 0;
}
// A place behind the last, where a damaged run may reach, is the last.
constexpr uint64_t PlaceBit(size_t place) noexcept {
  return uint64_t{1} << 63 >> std::min<size_t>(place, 63);
}

// A block, and the places of its AC coefficients that are not zero. A progressive file comes back
// to a block several times; each scan that refines coefficients asks for those that are there, and
// looking for them among 64 took longest.
struct ProgressiveBlock {
  int16_t* coefficients = nullptr;
  uint64_t* nonzero = nullptr;  // a scan of DC coefficients needs none
};

// Each reads one block of a scan. The bits must have a block's bytes ahead, see ScanBytes.
// eob_run: how many blocks have nothing more of their own; kept from block to block, 0 where
//   a scan begins and where the data behind a restart marker does.
// Return false at a code that the table does not have, or that the scan may not have.

// The highest bits of the DC coefficient, down to `low`. last_dc: the component's last DC
// coefficient, and afterwards this one; leaving the type is an error. Source: ITU-T T.81, G.1.2.1.
bool DecodeFirstDc(ScanBits& bits, const HuffmanTable& table, unsigned low, int32_t& last_dc,
                   int16_t* dc);
// The bit `low` of the DC coefficient.
void DecodeDcBit(ScanBits& bits, unsigned low, int16_t* dc);

// The highest bits of the AC coefficients, down to `low`. table: of kBands. Source: ITU-T T.81,
// G.1.2.2.
bool DecodeFirstAc(ScanBits& kept, const HuffmanTable& table, const SpectralBand& band,
                   uint32_t& eob_run, const ProgressiveBlock& block);

// The bit `low` of the AC coefficients that are there, and those that begin with it. table: of
// kBits. Source: ITU-T T.81, G.1.2.3; working on sets of places is ours.
using DecodeAcBits = bool (*)(ScanBits& kept, const HuffmanTable& table, const SpectralBand& band,
                              uint32_t& eob_run, const ProgressiveBlock& block);
bool DecodeAcBitsAnywhere(ScanBits& kept, const HuffmanTable& table, const SpectralBand& band,
                          uint32_t& eob_run, const ProgressiveBlock& block);
// By the instruction PDEP; null where the CPU has none, or one that takes longer than a loop.
DecodeAcBits DecodeAcBitsByDeposit() noexcept;

}  // namespace endcap
