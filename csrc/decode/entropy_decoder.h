#pragma once

// clang-format off
#include <cstdio>  // jpeglib.h uses FILE and size_t without including what declares them
#include <jpeglib.h>
// clang-format on

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "decode/huffman_table.h"
#include "decode/progressive_block.h"
#include "decode/scan_bytes.h"

namespace endcap {

// Decodes the Huffman codes of a file in the place of libjpeg-turbo's own decoder, sequential or
// progressive: the same coefficients, and the same warnings of damage. Everything else, from the
// headers and the order of the scans to the inverse DCT, remains the library's.
class EntropyDecoder {
 public:
  // Whether it can: after jpeg_read_header.
  static bool CanDecode(const jpeg_decompress_struct& info) noexcept;
  // Takes the memory that the file needs. The object is to be info.client_data, and to live as long
  // as the library decodes. Throws std::bad_alloc.
  explicit EntropyDecoder(const jpeg_decompress_struct& info);
  EntropyDecoder(const EntropyDecoder&) = delete;
  EntropyDecoder& operator=(const EntropyDecoder&) = delete;

  // Has info.client_data decode from the file's first scan on. A file of one scan is taken over
  // after jpeg_start_decompress; that call reads all scans of others, and has to come here from its
  // progress monitor before the first. May leave by the library's error_exit.
  static void TakeOver(j_decompress_ptr info);

 private:
  enum class Scan { kSequential, kFirstDc, kDcBit, kFirstAc, kAcBits };
  // One block of an MCU.
  struct Block {
    const HuffmanTable* dc = nullptr;
    const HuffmanTable* ac = nullptr;
    const jpeg_component_info* component = nullptr;
    int32_t* last_dc = nullptr;
  };

  static Scan ClassifyScan(const jpeg_decompress_struct& info) noexcept;
  static DecodeAcBits FastestAcBits() noexcept;
  // How a scan uses its table of AC codes, where it has one.
  static std::optional<HuffmanTable::Use> AcUse(Scan scan) noexcept;

  // The library's calls: for each scan; for each MCU, with its blocks, or without any where it
  // wants none.
  static void StartScan(j_decompress_ptr info);
  static boolean DecodeMcu(j_decompress_ptr info, JBLOCKROW* blocks);

  static void BeginOrFail(j_decompress_ptr info);
  void Begin(const jpeg_decompress_struct& info);
  const HuffmanTable* Read(HuffmanTable::Use use, const JHUFF_TBL* table);
  void Decode(j_decompress_ptr info, JBLOCKROW* blocks);
  bool SkipsBlock() noexcept;
  bool DecodeBlock(const Block& block, JCOEF* coefficients) noexcept;
  bool DecodeBlocks(j_decompress_ptr info, JBLOCKROW* blocks) noexcept;
  bool Restart(j_decompress_ptr info);
  void ReportCorruptData(j_decompress_ptr info, int warning);
  void End(j_decompress_ptr info) noexcept;

  void (*library_start_)(j_decompress_ptr info) = nullptr;
  bool has_several_scans_ = false;
  std::vector<std::vector<uint64_t>> nonzero_;  // of each component's blocks; see ProgressiveBlock
  DecodeAcBits decode_ac_bits_ = FastestAcBits();
  // Of a scan.
  Scan scan_ = Scan::kSequential;
  std::vector<std::shared_ptr<const HuffmanTable>> tables_;
  std::array<Block, D_MAX_BLOCKS_IN_MCU> blocks_;
  std::array<int32_t, MAX_COMPS_IN_SCAN> last_dc_{};
  SpectralBand band_;
  uint64_t band_places_ = 0;
  uint32_t eob_run_ = 0;
  uint64_t* next_nonzero_ = nullptr;
  int64_t mcus_to_go_ = 0;
  ScanBytes bytes_;
  ScanBits bits_;
  unsigned restarts_to_go_ = 0;  // MCUs until the next restart marker
  int next_restart_ = 0;
  int fault_ = 0;  // the warning's code once data was lost
};

// Has libjpeg-turbo's own decoder check every code. Without restart markers it uses a faster one,
// which takes a bad code for a zero; a file of several scans may end its markers between two scans.
class CheckedScans {
 public:
  // Whether it can: not without the library's inner interface.
  static bool CanTakeOver() noexcept;
  // As EntropyDecoder::TakeOver.
  static void TakeOver(j_decompress_ptr info);

 private:
  static void StartScan(j_decompress_ptr info);

  void (*library_start_)(j_decompress_ptr info) = nullptr;
};

}  // namespace endcap
