#include "decode/entropy_decoder.h"

#include <jerror.h>
// The library's inner interface, which Debian installs beside jpeglib.h.
#if ENDCAP_HAS_JPEGINT
#include <jpegint.h>
#endif

#include "decode/huffman_block.h"
#include "decode/huffman_cache.h"
#include "decode/jpeg_codes.h"

namespace endcap {

// A file with several scans has been read to its end by now: `info` tells of the last, and tables
// may have come after it that nobody has checked.
bool EntropyDecoder::CanDecode(jpeg_decompress_struct& info) noexcept {
  return ENDCAP_HAS_JPEGINT != 0 && info.progressive_mode == 0 && info.arith_code == 0 &&
         info.data_precision == 8 && jpeg_has_multiple_scans(&info) == 0 &&
         info.comps_in_scan == info.num_components && info.Ss == 0 && info.Se == DCTSIZE2 - 1;
}

EntropyDecoder::EntropyDecoder(jpeg_decompress_struct& info)
    : bytes_(info.src->next_input_byte, info.src->next_input_byte + info.src->bytes_in_buffer) {
  std::array<const HuffmanTable*, NUM_HUFF_TBLS> dc_tables{};
  std::array<const HuffmanTable*, NUM_HUFF_TBLS> ac_tables{};
  const auto read = [this](HuffmanTable::Use use, const JHUFF_TBL& table,
                           const HuffmanTable*& read_before) {
    if (read_before != nullptr) return;
    tables_.push_back(KeptHuffmanTable(use, table.bits + 1, table.huffval));
    read_before = tables_.back().get();
  };
  for (int i = 0; i < info.blocks_in_MCU; ++i) {
    const int member = info.MCU_membership[i];
    const jpeg_component_info& component = *info.cur_comp_info[member];
    const auto dc = static_cast<size_t>(component.dc_tbl_no);
    const auto ac = static_cast<size_t>(component.ac_tbl_no);
    read(HuffmanTable::Use::kDc, *info.dc_huff_tbl_ptrs[dc], dc_tables[dc]);
    read(HuffmanTable::Use::kAc, *info.ac_huff_tbl_ptrs[ac], ac_tables[ac]);
    blocks_[static_cast<size_t>(i)] = {dc_tables[dc], ac_tables[ac], &component,
                                       &last_dc_[static_cast<size_t>(member)]};
  }
  restarts_to_go_ = info.restart_interval;
  bytes_.Begin(bits_);
  info.client_data = this;
#if ENDCAP_HAS_JPEGINT
  info.entropy->decode_mcu = DecodeMcu;
#endif
}

// Called by the library for each MCU, with blocks of zeros, or without any where it wants none.
boolean EntropyDecoder::DecodeMcu(j_decompress_ptr info, JBLOCKROW* blocks) {
  auto& decoder = *static_cast<EntropyDecoder*>(info->client_data);
  if (decoder.fault_ != 0) return TRUE;  // the blocks remain zeros
  if (info->restart_interval != 0) {
    if (decoder.restarts_to_go_ == 0 && !decoder.Restart(info)) return TRUE;
    --decoder.restarts_to_go_;
  }
  if (!decoder.Decode(info, blocks)) decoder.Lose(info, decoder.fault_);
  return TRUE;
}

bool EntropyDecoder::Decode(j_decompress_ptr info, JBLOCKROW* blocks) noexcept {
  ScanBits bits = bits_;
  for (int i = 0; i < info->blocks_in_MCU; ++i) {
    const Block& block = blocks_[static_cast<size_t>(i)];
    if (!bytes_.HasBlock(bits)) bytes_.Move(bits);
    const bool needed = blocks != nullptr && block.component->component_needed != 0;
    JCOEF* coefficients = needed ? *blocks[i] : nullptr;
    const bool good = DecodeHuffmanBlock(bits, *block.dc, *block.ac, *block.last_dc, coefficients);
    // What was read behind the end are zeros, and may be any code.
    if (!bytes_.HasBlock(bits) && bytes_.IsPastEnd(bits)) {
      fault_ = JWRN_HIT_MARKER;
      return false;
    }
    if (!good) {
      fault_ = JWRN_HUFF_BAD_CODE;
      return false;
    }
  }
  bits_ = bits;
  return true;
}

bool EntropyDecoder::Restart(j_decompress_ptr info) {
  const int marker = bytes_.SkipToMarker();
  if (marker != kRst0 + next_restart_) {
    info->err->msg_parm.i[0] = marker;
    info->err->msg_parm.i[1] = next_restart_;
    Lose(info, JWRN_MUST_RESYNC);
    return false;
  }
  next_restart_ = (next_restart_ + 1) % 8;
  restarts_to_go_ = info->restart_interval;
  last_dc_.fill(0);
  bytes_.Begin(bits_);
  return true;
}

void EntropyDecoder::Lose(j_decompress_ptr info, int warning) {
  fault_ = warning;
  info->err->msg_code = warning;
  (*info->err->emit_message)(reinterpret_cast<j_common_ptr>(info), -1);
}

}  // namespace endcap
