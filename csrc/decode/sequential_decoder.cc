#include "decode/sequential_decoder.h"

#include <jerror.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "decode/huffman_block.h"
#include "decode/jpeg_markers.h"
#include "decode/libjpeg_session.h"

namespace endcap {
namespace {

// Whether libjpeg-turbo takes the table: its codes are a prefix code without one of ones alone.
// Source: ITU-T T.81, C.2.
bool IsValid(const JHUFF_TBL* table, bool is_dc) {
  if (table == nullptr) return false;
  unsigned code = 0;
  unsigned count = 0;
  for (unsigned length = 1; length <= HuffmanTable::kLongestCode; ++length) {
    const unsigned codes = table->bits[length];
    code += codes;
    count += codes;
    if (codes > 0 && code >= 1U << length) return false;
    code <<= 1;
  }
  if (count > std::size(table->huffval)) return false;
  constexpr UINT8 kMostDcBits = 15;
  const std::span<const UINT8> symbols(table->huffval, count);
  return !is_dc || std::ranges::all_of(symbols, [](UINT8 bits) { return bits <= kMostDcBits; });
}

template <typename Table, size_t kCount>
const Table* TableAt(Table* const (&tables)[kCount], int index) {
  return index >= 0 && static_cast<size_t>(index) < kCount ? tables[index] : nullptr;
}

bool HasFullSize(const jpeg_decompress_struct& info) {
  for (int i = 0; i < info.num_components; ++i) {
    if (ScaledBlockSize(info.comp_info[i]) != DCTSIZE) return false;
  }
  return true;
}

bool HasOneScan(const jpeg_decompress_struct& info) {
  return info.progressive_mode == 0 && info.comps_in_scan == info.num_components &&
         info.num_components <= MAX_COMPS_IN_SCAN && info.Ss == 0 && info.Se == DCTSIZE2 - 1 &&
         info.Ah == 0 && info.Al == 0;
}

constexpr int kBadCode = -1;

// Reads a block of zeros; zigzag place k is at block[order[k]]. Returns the place of the last
// coefficient that is not 0, or one behind it; kBadCode at a code that the tables do not have.
inline int DecodeOrdered(ScanBits& kept, const HuffmanTable& dc, const HuffmanTable& ac,
                         int32_t& last_dc, int16_t* block, const uint8_t* order) {
  constexpr size_t kLast = kBlockValues - 1;
  ScanBits bits = kept;  // in registers
  size_t last_place = 0;
  bool good = TakeDc(bits, dc, last_dc);
  if (good) {
    block[0] = static_cast<int16_t>(last_dc);
    const auto store = [block, order, &last_place](size_t k, int value) {
      block[order[k]] = static_cast<int16_t>(value);
      last_place = k <= kLast ? k : last_place;  // 0 behind it is an end, see HuffmanEntry::End
    };
    good = TakeAc(bits, ac, 0, kLast, store, [](unsigned /*run*/) {});
  }
  kept = bits;
  return good ? static_cast<int>(last_place) : kBadCode;
}

int CeilDivide(int a, int b) { return (a + b - 1) / b; }

}  // namespace

bool SequentialDecoder::CanDecode(const jpeg_decompress_struct& info) noexcept {
  if (info.arith_code != 0 || info.data_precision != 8) return false;
  if (!HasOneScan(info) || !HasFullSize(info)) return false;
  int blocks = 0;
  for (int i = 0; i < info.comps_in_scan; ++i) {
    const jpeg_component_info& component = *info.cur_comp_info[i];
    blocks += component.h_samp_factor * component.v_samp_factor;
    if (!IsValid(TableAt(info.dc_huff_tbl_ptrs, component.dc_tbl_no), true) ||
        !IsValid(TableAt(info.ac_huff_tbl_ptrs, component.ac_tbl_no), false) ||
        TableAt(info.quant_tbl_ptrs, component.quant_tbl_no) == nullptr) {
      return false;
    }
  }
  return info.comps_in_scan == 1 || blocks <= D_MAX_BLOCKS_IN_MCU;
}

SequentialDecoder::SequentialDecoder(const jpeg_decompress_struct& info) : info_(info) {
  const int lanes = kernel_.blocks * DCTSIZE;
  for (size_t k = 0; k < order_.size(); ++k) {
    const int place = kNaturalOrder[k];
    order_[k] = static_cast<uint8_t>(place / DCTSIZE * lanes + place % DCTSIZE);
  }
  const bool alone = info.comps_in_scan == 1;
  components_.reserve(static_cast<size_t>(info.comps_in_scan));
  for (int i = 0; i < info.comps_in_scan; ++i) Add(*info.cur_comp_info[i], alone);
  PlaceBlocks();
  if (alone) {
    const jpeg_component_info& component = *info.cur_comp_info[0];
    mcus_per_row_ = static_cast<int>(component.width_in_blocks);
    rows_of_mcus_ = component.v_samp_factor;
    mcu_rows_to_go_ = component.height_in_blocks;
  } else {
    mcu_width_ = info.max_h_samp_factor * DCTSIZE;
    mcus_per_row_ = CeilDivide(static_cast<int>(info.image_width), mcu_width_);
    mcu_rows_to_go_ = info.total_iMCU_rows;
  }
  end_of_needed_mcus_ = mcus_per_row_;
  restarts_to_go_ = info.restart_interval;
  bytes_.SetRaw({info.src->next_input_byte, info.src->bytes_in_buffer});
  bytes_.Begin(bits_);
}

void SequentialDecoder::Add(const jpeg_component_info& component, bool alone) {
  std::array<int16_t, kGroupValues>& quantization = quantization_[components_.size()];
  const JQUANT_TBL& table = *info_.quant_tbl_ptrs[component.quant_tbl_no];
  const auto blocks = static_cast<size_t>(kernel_.blocks);
  for (size_t place = 0; place < DCTSIZE2; ++place) {
    for (size_t block = 0; block < blocks; ++block) {
      const size_t row = place / DCTSIZE;
      quantization[(row * blocks + block) * DCTSIZE + place % DCTSIZE] =
          static_cast<int16_t>(table.quantval[place]);
    }
  }
  Component added;
  if (!alone) {
    added.h = component.h_samp_factor;
    added.v = component.v_samp_factor;
  }
  added.index = component.component_index;
  added.needed = component.component_needed != 0;
  const JHUFF_TBL& dc = *info_.dc_huff_tbl_ptrs[component.dc_tbl_no];
  const JHUFF_TBL& ac = *info_.ac_huff_tbl_ptrs[component.ac_tbl_no];
  added.dc = GetHuffmanTable(HuffmanTable::Use::kDc, dc.bits + 1, dc.huffval);
  added.ac = GetHuffmanTable(HuffmanTable::Use::kAc, ac.bits + 1, ac.huffval);
  added.quantization = quantization.data();
  if (!components_.empty()) {
    const Component& last = components_.back();
    added.first_group =
        last.first_group + static_cast<size_t>(last.h) * static_cast<size_t>(last.v);
  }
  components_.push_back(std::move(added));
}

// The blocks of a component and a batch lie in groups as they do in the plane: beside each other.
void SequentialDecoder::PlaceBlocks() {
  for (const Component& component : components_) {
    for (int y = 0; y < component.v; ++y) {
      for (int x = 0; x < component.h; ++x) {
        const size_t index = component.first_group + static_cast<size_t>(y * component.h + x);
        groups_of_batch_.push_back({&component, index, x * kernel_.blocks, y * DCTSIZE});
      }
    }
  }
  mcus_.resize(static_cast<size_t>(kernel_.blocks));
  for (size_t place = 0; place < mcus_.size(); ++place) {
    for (Component& component : components_) {
      for (int y = 0; y < component.v; ++y) {
        for (int x = 0; x < component.h; ++x) {
          const int column = static_cast<int>(place) * component.h + x;
          const size_t group = component.first_group +
                               static_cast<size_t>(y * component.h + column / kernel_.blocks);
          const auto lane = static_cast<size_t>(column % kernel_.blocks);
          mcus_[place].push_back(
              {&component, groups_[group].data() + lane * DCTSIZE, &last_places_[group]});
        }
      }
    }
  }
}

void SequentialDecoder::NeedColumns(int begin, int end) noexcept {
  first_needed_mcu_ = std::max(begin, 0) / mcu_width_;
  end_of_needed_mcus_ = std::min(CeilDivide(end, mcu_width_), mcus_per_row_);
}

SequentialDecoder::Damage SequentialDecoder::ReadMcuRow(JSAMPIMAGE rows) {
  std::array<JSAMPARRAY, MAX_COMPONENTS> planes{};
  if (rows != nullptr) std::copy_n(rows, info_.num_components, planes.begin());
  for (int row = 0; row < rows_of_mcus_ && mcu_rows_to_go_ > 0; ++row, --mcu_rows_to_go_) {
    for (int mcu = 0; mcu < mcus_per_row_; mcu += kernel_.blocks) {
      const int count = std::min(kernel_.blocks, mcus_per_row_ - mcu);
      const bool skips =
          rows == nullptr || mcu + count <= first_needed_mcu_ || mcu >= end_of_needed_mcus_;
      for (int place = 0; place < count; ++place) {
        if (!BeginMcu()) return damage_;
        for (const Block& block : mcus_[static_cast<size_t>(place)]) {
          if (!DecodeBlock(block, skips)) return damage_;
        }
      }
      if (!skips) Transform(mcu, count, planes.data());
    }
    if (rows != nullptr && rows_of_mcus_ > 1) planes[0] += DCTSIZE;
  }
  return {};
}

bool SequentialDecoder::BeginMcu() {
  if (info_.restart_interval == 0) return true;
  if (restarts_to_go_ == 0) {
    const int marker = bytes_.SkipToMarker();
    if (marker != kRst0 + next_restart_) {
      damage_ = {JWRN_MUST_RESYNC, marker, next_restart_};
      return false;
    }
    next_restart_ = (next_restart_ + 1) % 8;
    restarts_to_go_ = info_.restart_interval;
    for (Component& component : components_) component.last_dc = 0;
    bytes_.Begin(bits_);
  }
  --restarts_to_go_;
  return true;
}

bool SequentialDecoder::DecodeBlock(const Block& block, bool skips) {
  bool ends_here = false;
  if (!bytes_.HasBlock(bits_)) [[unlikely]] {
    bytes_.Move(bits_);
    ends_here = !bytes_.HasBlock(bits_);
  }
  Component& component = *block.component;
  int last_place = 0;
  if (skips || !component.needed) {
    const bool good =
        DecodeHuffmanBlock(bits_, *component.dc, *component.ac, component.last_dc, nullptr);
    last_place = good ? 0 : kBadCode;
  } else {
    last_place = DecodeOrdered(bits_, *component.dc, *component.ac, component.last_dc,
                               block.coefficients, order_.data());
  }
  // What was read behind the end are zeros, and may be any code.
  if (ends_here && bytes_.IsPastEnd(bits_)) {
    damage_.warning = JWRN_HIT_MARKER;
    return false;
  }
  if (last_place == kBadCode) {
    damage_.warning = JWRN_HUFF_BAD_CODE;
    return false;
  }
  *block.last_place = std::max(*block.last_place, last_place);
  return true;
}

// The samples of `count` MCUs.
void SequentialDecoder::Transform(int first_mcu, int count, JSAMPIMAGE rows) {
  for (const Group& group : groups_of_batch_) {
    const Component& component = *group.component;
    if (!component.needed) continue;
    const int blocks = std::min(count * component.h - group.first_block, kernel_.blocks);
    if (blocks <= 0) continue;
    const int first_block = first_mcu * component.h + group.first_block;
    TransformGroup(group, blocks, rows[component.index] + group.first_row,
                   static_cast<size_t>(first_block) * DCTSIZE);
  }
}

// blocks: of the group that lie in the plane.
void SequentialDecoder::TransformGroup(const Group& group, int blocks, JSAMPARRAY rows,
                                       size_t column) {
  const int last_place = std::exchange(last_places_[group.index], 0);
  int16_t* coefficients = groups_[group.index].data();
  const int16_t* quantization = group.component->quantization;
  if (blocks == kernel_.blocks) [[likely]] {
    kernel_.run(coefficients, quantization, last_place, rows, column);
    return;
  }
  std::array<uint8_t*, DCTSIZE> spare;
  for (size_t row = 0; row < spare.size(); ++row) spare[row] = spare_[row].data();
  kernel_.run(coefficients, quantization, last_place, spare.data(), 0);
  for (size_t row = 0; row < spare.size(); ++row) {
    std::memcpy(rows[row] + column, spare[row], static_cast<size_t>(blocks) * DCTSIZE);
  }
}

uint8_t SequentialDecoder::SkipToMarker() noexcept {
  const uint8_t marker = bytes_.SkipToMarker();
  return bytes_.has_marker() ? marker : 0;
}

}  // namespace endcap
