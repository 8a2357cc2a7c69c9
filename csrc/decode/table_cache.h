#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "decode/jpeg_tables.h"

namespace endcap {

// The tables of a thread's last files, by use and codes.
template <typename Table>
class TableCache {
 public:
  std::shared_ptr<const Table> Get(typename Table::Use use, const HuffmanCodes& codes) {
    for (const Kept& kept : tables_) {
      if (kept.table != nullptr && kept.use == use && kept.codes == codes) return kept.table;
    }
    Kept made{use, codes, std::make_shared<const Table>(use, codes)};
    Kept& oldest = tables_[oldest_];
    oldest_ = (oldest_ + 1) % kKept;
    oldest = std::move(made);
    return oldest.table;
  }

 private:
  // Of two files, each with two tables for luma and two for chroma; a progressive one has about
  // ten.
  static constexpr size_t kKept = 12;

  struct Kept {
    typename Table::Use use = Table::Use::kDc;
    HuffmanCodes codes;
    std::shared_ptr<const Table> table;
  };

  std::array<Kept, kKept> tables_;
  size_t oldest_ = 0;
};

}  // namespace endcap
