#pragma once

#include <cstddef>
#include <cstdint>

#include "decode/block_table.h"
#include "decode/huffman_block.h"
#include "decode/scan_reader.h"

// Reads the blocks of sequential scans. Where a block ends depends on its codes, so that a branch
// there is wrong once in almost every block. The parts of blocks, a DC code or the AC codes of one,
// are a list instead: whether a lookup ends a part selects the next one without a branch. Only what
// a lookup does not tell branches, and the end of the list.

namespace endcap {

// The DC code of a block, or its AC codes. The last part of a list has StopTable, and a block of
// its own.
// Aligned, so that the size is a power of two and a shift finds the next part.
struct alignas(32) BlockPart {
  const BlockTable* table = nullptr;
  int16_t* block = nullptr;  // zeros before
  // After reading AC codes: the place of the last coefficient that is not 0, or one behind it.
  uint8_t last_place = 0;
};

// The table of the last part of a list.
const BlockTable& StopTable() noexcept;

// Reads a list of parts. A DC part stores the difference to the last block of its component at the
// first place. Throws kCorruptImage for a code that the tables do not have and where the data ends.
void ReadBlocks(ScanReader& reader, BlockPart* parts, const PlaceOrder& order);

}  // namespace endcap
