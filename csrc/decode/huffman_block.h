#pragma once

#include <cstdint>

#include "decode/huffman_table.h"
#include "decode/scan_bytes.h"

namespace endcap {

// Reads one block of a sequential scan. `kept` must have a block's bytes ahead, see ScanBytes.
// last_dc: the DC coefficient of the component's last block, and afterwards of this one; it wraps
//   where a damaged file lets it leave the type.
// block: 64 zeros, which become the coefficients in the order of rows; null: they are passed over.
// keeps_others: the block may hold coefficients of an earlier scan, and keeps those that are 0
// here. Returns false at a code that the tables do not have. Source: ITU-T T.81, F.2.2.
bool DecodeHuffmanBlock(ScanBits& kept, const HuffmanTable& dc, const HuffmanTable& ac,
                        int32_t& last_dc, int16_t* block, bool keeps_others = false);

}  // namespace endcap
