#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "decode/byte_reader.h"

namespace endcap {

// The codes of a Huffman table as a file gives them. Source: ITU-T T.81, B.2.4.2.
struct HuffmanCodes {
  std::array<uint8_t, 16> counts{};  // how many codes have each length, from 1 bit on
  std::array<uint8_t, 256> symbols{};

  // Whether libjpeg-turbo takes them: a prefix code without one of ones alone, and for DC
  // differences none of more than 15 bits. A table that was never defined has no code.
  // Source: ITU-T T.81, C.2.
  bool IsValid(bool is_dc) const noexcept;
  bool operator==(const HuffmanCodes&) const = default;
};

// The tables and the restart interval that hold for the next scan of a file.
struct JpegTables {
  static constexpr size_t kCount = 4;  // of each kind

  struct Quantization {
    bool defined = false;
    std::array<uint16_t, 64> steps{};  // in the order of rows
  };
  struct Huffman {
    bool defined = false;
    HuffmanCodes codes;
  };

  std::array<Quantization, kCount> quantization;
  std::array<Huffman, kCount> dc;
  std::array<Huffman, kCount> ac;
  int restart_interval = 0;  // MCUs; 0: no restart markers
};

// Takes what a DQT, DHT or DRI segment defines. Returns false where libjpeg-turbo has an error.
bool ReadTables(uint8_t marker, ByteReader segment, JpegTables& tables) noexcept;

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
