#include "decode/jpeg_tables.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "decode/huffman_block.h"
#include "decode/jpeg_markers.h"

namespace endcap {
namespace {

// Source: ITU-T T.81, B.2.4.1.
bool ReadQuantization(ByteReader& segment, JpegTables& tables) noexcept {
  while (segment.remaining() > 0) {
    const uint8_t kind = segment.Byte();
    const size_t index = kind & 15;
    if (index >= JpegTables::kCount) return false;
    JpegTables::Quantization& table = tables.quantization[index];
    for (size_t k = 0; k < table.steps.size(); ++k) {
      table.steps[kNaturalOrder[k]] = kind >> 4 != 0 ? segment.Word() : segment.Byte();
    }
    if (segment.overrun()) return false;
    table.defined = true;
  }
  return true;
}

bool ReadHuffman(ByteReader& segment, JpegTables& tables) noexcept {
  while (segment.remaining() > 0) {
    const uint8_t kind = segment.Byte();
    const size_t index = kind & 15;
    if (kind >> 4 > 1 || index >= JpegTables::kCount) return false;
    JpegTables::Huffman& table = kind >> 4 == 0 ? tables.dc[index] : tables.ac[index];
    HuffmanCodes codes;
    for (uint8_t& count : codes.counts) count = segment.Byte();
    const size_t count = std::accumulate(codes.counts.begin(), codes.counts.end(), size_t{0});
    if (count > codes.symbols.size()) return false;
    for (size_t i = 0; i < count; ++i) codes.symbols[i] = segment.Byte();
    if (segment.overrun()) return false;
    table = {true, codes};
  }
  return true;
}

}  // namespace

bool HuffmanCodes::IsValid(bool is_dc) const noexcept {
  uint32_t code = 0;
  size_t total = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const size_t length = i + 1;
    code += counts[i];
    total += counts[i];
    if (counts[i] > 0 && code >= 1U << length) return false;
    code <<= 1;
  }
  if (total > symbols.size()) return false;
  constexpr uint8_t kMaxDcBits = 15;
  return !is_dc || std::ranges::all_of(std::span(symbols).first(total),
                                       [](uint8_t bits) { return bits <= kMaxDcBits; });
}

bool ReadTables(uint8_t marker, ByteReader segment, JpegTables& tables) noexcept {
  switch (marker) {
    case kDqt:
      return ReadQuantization(segment, tables);
    case kDht:
      return ReadHuffman(segment, tables);
    case kDri:
      tables.restart_interval = segment.Word();
      return segment.remaining() == 0 && !segment.overrun();
    default:
      return false;
  }
}

}  // namespace endcap
