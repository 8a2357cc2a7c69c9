#include "decode/huffman_cache.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace endcap {
namespace {

constexpr size_t kCounts = HuffmanTable::kLongestCode;
constexpr size_t kSymbols = 256;
// Of two files, each with two tables for luma and two for chroma; a progressive one has about ten.
constexpr size_t kKept = 12;

struct Kept {
  HuffmanTable::Use use = HuffmanTable::Use::kDc;
  std::array<uint8_t, kCounts> counts{};
  std::array<uint8_t, kSymbols> symbols{};
  std::shared_ptr<const HuffmanTable> table;

  bool Matches(HuffmanTable::Use wanted, const uint8_t* of_counts,
               const uint8_t* of_symbols) const {
    return table != nullptr && use == wanted &&
           std::equal(counts.begin(), counts.end(), of_counts) &&
           std::equal(symbols.begin(), symbols.end(), of_symbols);
  }
};

struct Cache {
  std::array<Kept, kKept> tables;
  size_t oldest = 0;
};

}  // namespace

std::shared_ptr<const HuffmanTable> KeptHuffmanTable(HuffmanTable::Use use, const uint8_t* counts,
                                                     const uint8_t* symbols) {
  thread_local Cache cache;
  for (const Kept& kept : cache.tables) {
    if (kept.Matches(use, counts, symbols)) return kept.table;
  }
  auto table = std::make_shared<const HuffmanTable>(use, counts, symbols);
  Kept& made = cache.tables[cache.oldest];
  cache.oldest = (cache.oldest + 1) % kKept;
  made.use = use;
  std::copy_n(counts, kCounts, made.counts.begin());
  std::copy_n(symbols, kSymbols, made.symbols.begin());
  made.table = table;
  return table;
}

}  // namespace endcap
