#pragma once

// clang-format off
#include <cstdio>  // jpeglib.h uses FILE and size_t without including what declares them
#include <jpeglib.h>
// clang-format on

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "decode/huffman_table.h"
#include "decode/scan_bytes.h"

namespace endcap {

// Decodes the Huffman codes of a sequential file with one scan in the place of libjpeg-turbo's own
// decoder: the same coefficients, and the same warnings of damage. Everything else, from the
// headers to the inverse DCT, remains the library's.
class EntropyDecoder {
 public:
  // Whether the file is of that kind. After jpeg_start_decompress, as all of this.
  static bool CanDecode(jpeg_decompress_struct& info) noexcept;
  // Takes over the decoding of `info`, whose client_data it uses; to live as long as `info`.
  explicit EntropyDecoder(jpeg_decompress_struct& info);
  EntropyDecoder(const EntropyDecoder&) = delete;
  EntropyDecoder& operator=(const EntropyDecoder&) = delete;

 private:
  // One block of an MCU.
  struct Block {
    const HuffmanTable* dc = nullptr;
    const HuffmanTable* ac = nullptr;
    const jpeg_component_info* component = nullptr;
    int32_t* last_dc = nullptr;
  };

  static boolean DecodeMcu(j_decompress_ptr info, JBLOCKROW* blocks);
  bool Decode(j_decompress_ptr info, JBLOCKROW* blocks) noexcept;
  bool Restart(j_decompress_ptr info);
  void Lose(j_decompress_ptr info, int warning);

  std::vector<std::shared_ptr<const HuffmanTable>> tables_;
  std::array<Block, D_MAX_BLOCKS_IN_MCU> blocks_;
  std::array<int32_t, MAX_COMPS_IN_SCAN> last_dc_{};
  ScanBytes bytes_;
  ScanBits bits_;
  unsigned restarts_to_go_ = 0;  // MCUs until the next restart marker
  int next_restart_ = 0;
  int fault_ = 0;  // the warning's code once data was lost
};

}  // namespace endcap
