#pragma once

#include <cstdint>
#include <memory>

#include "decode/huffman_table.h"

namespace endcap {

// The table of these codes, see HuffmanTable. A thread keeps those of its last files: most of a
// camera's have the same, and making four takes as long as a hundred blocks do.
std::shared_ptr<const HuffmanTable> KeptHuffmanTable(HuffmanTable::Use use, const uint8_t* counts,
                                                     const uint8_t* symbols);

}  // namespace endcap
