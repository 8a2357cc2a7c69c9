#include "decode/entropy_decoder.h"

#include <jerror.h>
// The library's inner interface, which Debian installs beside jpeglib.h.
#if ENDCAP_HAS_JPEGINT
#include <jpegint.h>
#endif

#include <limits>
#include <new>
#include <optional>

#include "decode/huffman_block.h"
#include "decode/huffman_table.h"
#include "decode/jpeg_markers.h"

namespace endcap {

bool EntropyDecoder::CanDecode(const jpeg_decompress_struct& info) noexcept {
  return ENDCAP_HAS_JPEGINT != 0 && info.arith_code == 0 && info.data_precision == 8;
}

EntropyDecoder::EntropyDecoder(const jpeg_decompress_struct& info) {
  if (info.progressive_mode == 0) return;
  nonzero_.resize(static_cast<size_t>(info.num_components));
  for (size_t i = 0; i < nonzero_.size(); ++i) {
    // As many blocks as the library will count, whatever its later steps scale.
    const jpeg_component_info& component = info.comp_info[i];
    nonzero_[i].resize(size_t{component.width_in_blocks} * component.height_in_blocks);
  }
}

void EntropyDecoder::TakeOver(j_decompress_ptr info) {
#if ENDCAP_HAS_JPEGINT
  auto& decoder = *static_cast<EntropyDecoder*>(info->client_data);
  decoder.library_start_ = info->entropy->start_pass;
  decoder.has_several_scans_ = jpeg_has_multiple_scans(info) != 0;
  info->entropy->start_pass = StartScan;
#endif
  BeginOrFail(info);
}

// The library's own step checks the scan's parameters and tables, and notes what it brings.
void EntropyDecoder::StartScan(j_decompress_ptr info) {
  static_cast<EntropyDecoder*>(info->client_data)->library_start_(info);
  BeginOrFail(info);
}

void EntropyDecoder::BeginOrFail(j_decompress_ptr info) {
  bool has_memory = true;
  try {
    static_cast<EntropyDecoder*>(info->client_data)->Begin(*info);
  } catch (const std::bad_alloc&) {
    has_memory = false;  // no exception may pass through the library
  }
  if (!has_memory) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
#if ENDCAP_HAS_JPEGINT
  info->entropy->decode_mcu = DecodeMcu;
#endif
}

void EntropyDecoder::Begin(const jpeg_decompress_struct& info) {
  scan_ = ClassifyScan(info);
  tables_.clear();
  for (int i = 0; i < info.blocks_in_MCU; ++i) {
    const int member = info.MCU_membership[i];
    const jpeg_component_info& component = *info.cur_comp_info[member];
    Block& block = blocks_[static_cast<size_t>(i)];
    block = {nullptr, nullptr, &component, &last_dc_[static_cast<size_t>(member)]};
    if (scan_ == Scan::kSequential || scan_ == Scan::kFirstDc) {
      block.dc = Read(HuffmanTable::Use::kDc, info.dc_huff_tbl_ptrs[component.dc_tbl_no]);
    }
    if (const auto use = AcUse(scan_)) {
      block.ac = Read(*use, info.ac_huff_tbl_ptrs[component.ac_tbl_no]);
    }
  }
  if (!nonzero_.empty()) {
    next_nonzero_ = nonzero_[static_cast<size_t>(blocks_[0].component->component_index)].data();
  }
  band_ = {static_cast<size_t>(info.Ss), static_cast<size_t>(info.Se),
           static_cast<unsigned>(info.Al)};
  band_places_ = PlacesFrom(band_.first) & ~PlacesFrom(band_.last + 1);
  last_dc_.fill(0);
  eob_run_ = 0;
  mcus_to_go_ = int64_t{info.MCUs_per_row} * info.MCU_rows_in_scan;
  restarts_to_go_ = info.restart_interval;
  next_restart_ = 0;
  bytes_.SetRaw({info.src->next_input_byte, info.src->bytes_in_buffer});
  bytes_.Begin(bits_);
}

const HuffmanTable* EntropyDecoder::Read(HuffmanTable::Use use, const JHUFF_TBL* table) {
  tables_.push_back(GetHuffmanTable(use, table->bits + 1, table->huffval));
  return tables_.back().get();
}

boolean EntropyDecoder::DecodeMcu(j_decompress_ptr info, JBLOCKROW* blocks) {
  auto& decoder = *static_cast<EntropyDecoder*>(info->client_data);
  if (decoder.fault_ == 0) decoder.Decode(info, blocks);  // else the blocks remain as they are
  if (--decoder.mcus_to_go_ == 0) decoder.End(info);
  return TRUE;
}

void EntropyDecoder::Decode(j_decompress_ptr info, JBLOCKROW* blocks) {
  if (info->restart_interval != 0) {
    if (restarts_to_go_ == 0 && !Restart(info)) return;
    --restarts_to_go_;
  }
  if (!SkipsBlock() && !DecodeBlocks(info, blocks)) ReportCorruptData(info, fault_);
}

// Most MCUs of a progressive scan have no bit of their own. Skips such a one; returns false
// where there is something to read.
bool EntropyDecoder::SkipsBlock() noexcept {
  if (eob_run_ == 0 || (scan_ == Scan::kAcBits && (*next_nonzero_ & band_places_) != 0)) {
    return false;
  }
  --eob_run_;
  ++next_nonzero_;
  return true;
}

bool EntropyDecoder::DecodeBlocks(j_decompress_ptr info, JBLOCKROW* blocks) noexcept {
  for (int i = 0; i < info->blocks_in_MCU; ++i) {
    if (!bytes_.HasBlock(bits_)) bytes_.Move(bits_);
    const bool ends_here = !bytes_.HasBlock(bits_);
    const bool good =
        DecodeBlock(blocks_[static_cast<size_t>(i)], blocks == nullptr ? nullptr : *blocks[i]);
    // What was read behind the end are zeros, and may be any code.
    if (ends_here && bytes_.IsPastEnd(bits_)) {
      fault_ = JWRN_HIT_MARKER;
      return false;
    }
    if (!good) {
      fault_ = JWRN_HUFF_BAD_CODE;
      return false;
    }
  }
  return true;
}

bool EntropyDecoder::DecodeBlock(const Block& block, JCOEF* coefficients) noexcept {
  switch (scan_) {
    case Scan::kFirstDc:
      return DecodeFirstDc(bits_, *block.dc, band_.low, *block.last_dc, coefficients);
    case Scan::kDcBit:
      DecodeDcBit(bits_, band_.low, coefficients);
      return true;
    case Scan::kFirstAc:
      return DecodeFirstAc(bits_, *block.ac, band_, eob_run_, {coefficients, next_nonzero_++});
    case Scan::kAcBits:
      return decode_ac_bits_(bits_, *block.ac, band_, eob_run_, {coefficients, next_nonzero_++});
    case Scan::kSequential:
      break;
  }
  if (block.component->component_needed == 0) coefficients = nullptr;
  return DecodeHuffmanBlock(bits_, *block.dc, *block.ac, *block.last_dc, coefficients,
                            has_several_scans_);
}

bool EntropyDecoder::Restart(j_decompress_ptr info) {
  const int marker = bytes_.SkipToMarker();
  if (marker != kRst0 + next_restart_) {
    info->err->msg_parm.i[0] = marker;
    info->err->msg_parm.i[1] = next_restart_;
    ReportCorruptData(info, JWRN_MUST_RESYNC);
    return false;
  }
  next_restart_ = (next_restart_ + 1) % 8;
  restarts_to_go_ = info->restart_interval;
  last_dc_.fill(0);
  eob_run_ = 0;
  bytes_.Begin(bits_);
  return true;
}

void EntropyDecoder::ReportCorruptData(j_decompress_ptr info, int warning) {
  fault_ = warning;
  info->err->msg_code = warning;
  (*info->err->emit_message)(reinterpret_cast<j_common_ptr>(info), -1);
}

// The library goes on behind the scan's data; where some was lost, with the end of the image.
void EntropyDecoder::End(j_decompress_ptr info) noexcept {
  const uint8_t marker = fault_ != 0 ? kEoi : bytes_.SkipToMarker();
  info->unread_marker = fault_ != 0 || bytes_.has_marker() ? marker : 0;
  info->src->next_input_byte = bytes_.rest().data();
  info->src->bytes_in_buffer = bytes_.rest().size();
}

EntropyDecoder::Scan EntropyDecoder::ClassifyScan(const jpeg_decompress_struct& info) noexcept {
  if (info.progressive_mode == 0) return Scan::kSequential;
  if (info.Ss == 0) return info.Ah == 0 ? Scan::kFirstDc : Scan::kDcBit;
  return info.Ah == 0 ? Scan::kFirstAc : Scan::kAcBits;
}

DecodeAcBits EntropyDecoder::FastestAcBits() noexcept {
  const DecodeAcBits by_deposit = DecodeAcBitsByDeposit();
  return by_deposit != nullptr ? by_deposit : DecodeAcBitsAnywhere;
}

std::optional<HuffmanTable::Use> EntropyDecoder::AcUse(Scan scan) noexcept {
  switch (scan) {
    case Scan::kSequential:
      return HuffmanTable::Use::kAc;
    case Scan::kFirstAc:
      return HuffmanTable::Use::kBands;
    case Scan::kAcBits:
      return HuffmanTable::Use::kCodes;
    case Scan::kFirstDc:
    case Scan::kDcBit:
      break;
  }
  return std::nullopt;
}

bool CheckedScans::CanTakeOver() noexcept { return ENDCAP_HAS_JPEGINT != 0; }

void CheckedScans::TakeOver([[maybe_unused]] j_decompress_ptr info) {
#if ENDCAP_HAS_JPEGINT
  auto& scans = *static_cast<CheckedScans*>(info->client_data);
  scans.library_start_ = info->entropy->start_pass;
  info->entropy->start_pass = StartScan;
#endif
}

void CheckedScans::StartScan(j_decompress_ptr info) {
  // MCUs between restart markers, more than a file can have.
  constexpr unsigned kNever = std::numeric_limits<unsigned>::max();
  if (info->restart_interval == 0) info->restart_interval = kNever;
  static_cast<CheckedScans*>(info->client_data)->library_start_(info);
}

}  // namespace endcap
