#include "decode/sequential_decoder.h"

#include <algorithm>
#include <utility>

#include "decode/huffman_block.h"

namespace endcap {
namespace {

// Columns of the file, or more, whose coefficients are read before they are transformed: enough
// that the mispredicted branch at the end costs little, so few that they stay in the first-level
// cache.
constexpr int kColumnsPerBatch = 64;

int CeilDivide(int a, int b) { return (a + b - 1) / b; }

}  // namespace

bool SequentialDecoder::CanDecode(const JpegMarkers& markers) noexcept {
  return markers.first_scan && !markers.has_several_scans() && markers.first_scan->is_whole() &&
         CanDecodeScan(*markers.first_scan, markers.tables, markers);
}

SequentialDecoder::SequentialDecoder(std::span<const uint8_t> file, const JpegMarkers& markers,
                                     const JpegFrame& frame, size_t needed_components)
    : file_(file),
      markers_(markers),
      frame_(frame),
      needed_components_(needed_components),
      reader_(ScanIterator(file, markers).data(), markers.tables.restart_interval) {
  const ScanHeader scan = markers.first_scan.value_or(ScanHeader{});
  const bool alone = scan.component_count == 1;
  components_.reserve(scan.component_count);
  for (size_t i = 0; i < scan.component_count; ++i) Add(scan.components[i], markers, alone);
  if (alone) {
    const JpegComponent& component = *components_[0].in_frame;
    mcu_width_ = component.block_size;
    mcus_per_row_ = component.width_in_blocks;
    rows_of_mcus_ = component.v;
    mcu_rows_ = component.height_in_blocks;
  } else {
    mcu_width_ = frame.columns_per_mcu();
    mcus_per_row_ = frame.mcus_per_row;
    mcu_rows_ = frame.mcu_rows;
  }
  mcu_rows_to_go_ = mcu_rows_;
  end_of_needed_mcus_ = mcus_per_row_;
  PlaceGroups();
  PlaceBlocks();
  batch_ = CoefficientChunk(bytes_per_batch());
}

void SequentialDecoder::Add(const ScanHeader::Component& in_scan, const JpegMarkers& markers,
                            bool alone) {
  const JpegComponent& in_frame = frame_.components[in_scan.index];
  std::array<int16_t, kGroupValues>& quantization = quantization_[components_.size()];
  transform_.FillQuantization(markers.tables.quantization[in_frame.quantization],
                              quantization.data());
  Component added;
  if (!alone) {
    added.h = in_frame.h;
    added.v = in_frame.v;
  }
  added.index = in_scan.index;
  added.in_scan = components_.size();
  added.in_frame = &in_frame;
  added.needed = in_scan.index < needed_components_;
  added.dc = GetBlockTable(BlockTable::Use::kDc, markers.tables.dc[in_scan.dc_table].codes);
  added.ac = GetBlockTable(BlockTable::Use::kAc, markers.tables.ac[in_scan.ac_table].codes);
  added.quantization = quantization.data();
  added.inverse_dct = transform_.For(in_frame);
  added.mcu_width = static_cast<size_t>(added.h) * static_cast<size_t>(in_frame.block_size);
  added.mcu_height = static_cast<size_t>(added.v) * static_cast<size_t>(in_frame.block_size);
  components_.push_back(std::move(added));
}

// The blocks of a component and a batch lie in groups as they do in the plane: beside each other.
void SequentialDecoder::PlaceGroups() {
  const int group_blocks = transform_.blocks();
  const int blocks_across = components_.size() == 1 ? 1 : frame_.max_h;  // of an MCU
  const int groups_wide =
      std::max(kColumnsPerBatch / (blocks_across * kBlockSide * group_blocks), 1);
  mcus_per_batch_ = groups_wide * group_blocks;
  for (const Component& component : components_) {
    const int block_size = component.in_frame->block_size;
    for (int y = 0; y < component.v; ++y) {
      for (int x = 0; x < groups_wide * component.h; ++x) {
        const int first_block = x * group_blocks;
        const auto first_column =
            static_cast<size_t>(first_block) * static_cast<size_t>(block_size);
        groups_of_batch_.push_back({&component, first_block, first_column, y * block_size});
      }
    }
  }
}

void SequentialDecoder::PlaceBlocks() {
  const int group_blocks = transform_.blocks();
  for (int mcu = 0; mcu < mcus_per_batch_; ++mcu) {
    size_t first_group = 0;
    for (Component& component : components_) {
      const int groups_wide = mcus_per_batch_ / group_blocks * component.h;
      for (int y = 0; y < component.v; ++y) {
        for (int x = mcu * component.h; x < (mcu + 1) * component.h; ++x) {
          const size_t group =
              first_group + static_cast<size_t>(y * groups_wide + x / group_blocks);
          const auto lane = static_cast<size_t>(x % group_blocks);
          blocks_of_batch_.push_back(
              {&component, group, group * group_values() + lane * kBlockSide});
          parts_.push_back({component.dc.get(), unneeded_block_.data()});
          parts_.push_back({component.ac.get(), unneeded_block_.data()});
        }
      }
      first_group += static_cast<size_t>(component.v * groups_wide);
    }
  }
  parts_.push_back({&StopTable(), unneeded_block_.data()});
}

void SequentialDecoder::NeedColumns(int begin, int end) noexcept {
  first_needed_mcu_ = std::max(begin, 0) / mcu_width_;
  end_of_needed_mcus_ = std::min(CeilDivide(end, mcu_width_), mcus_per_row_);
}

void SequentialDecoder::ReadMcuRow(const PlaneRows* planes) {
  const Coefficients batch = BatchOf(batch_, 0);
  for (int row = 0; row < rows_of_mcus_ && mcu_rows_to_go_ > 0; ++row, --mcu_rows_to_go_) {
    for (int mcu = 0; mcu < mcus_per_row_; mcu += mcus_per_batch_) {
      const bool skips = planes == nullptr || !IsNeeded(mcu);
      ReadBatch(mcu, skips, batch);
      if (!skips) TransformBatch(mcu, batch, *planes, row, nullptr);
    }
  }
}

SequentialDecoder::Coefficients SequentialDecoder::BatchOf(CoefficientChunk& chunk,
                                                           size_t batch) const noexcept {
  const size_t first_group = batch * groups_of_batch_.size();
  int16_t* const values = chunk.lines.front().values.data();
  return {values + first_group * group_values(), chunk.last_places.data() + first_group};
}

void SequentialDecoder::Clear(const Coefficients& batch) const noexcept {
  std::fill_n(batch.values, groups_of_batch_.size() * group_values(), int16_t{0});
  std::fill_n(batch.last_places, groups_of_batch_.size(), 0);
}

void SequentialDecoder::SetDestination(const Coefficients& to) noexcept {
  if (destination_ == to.values) return;
  destination_ = to.values;
  BlockPart* part = parts_.data();
  for (const Block& block : blocks_of_batch_) {
    int16_t* const values = to.values + block.offset;
    part++->block = values;
    part++->block = values;
  }
}

// skips: leaves no coefficients.
void SequentialDecoder::ReadBatch(int first_mcu, bool skips, const Coefficients& to) {
  SetDestination(to);
  const int count = std::min(mcus_per_batch_, mcus_per_row_ - first_mcu);
  for (int mcu = 0; mcu < count;) {
    if (reader_.BeginInterval()) RestartDcs();
    const int taken = reader_.TakeMcus(count - mcu);
    ReadBlocksOf(mcu, mcu + taken, to);
    mcu += taken;
  }
  if (skips) Clear(to);
}

// Reads MCUs of a batch without restart markers between them.
void SequentialDecoder::ReadBlocksOf(int begin_mcu, int end_mcu, const Coefficients& to) {
  const size_t per_mcu = blocks_of_batch_.size() / static_cast<size_t>(mcus_per_batch_);
  const size_t begin = static_cast<size_t>(begin_mcu) * per_mcu;
  const size_t end = static_cast<size_t>(end_mcu) * per_mcu;
  BlockPart& behind = parts_[end * kPartsPerBlock];
  const BlockPart kept = std::exchange(behind, parts_.back());
  try {
    ReadBlocks(reader_, &parts_[begin * kPartsPerBlock], transform_.order());
  } catch (...) {
    behind = kept;
    throw;
  }
  behind = kept;
  // Copies, which what is stored below cannot change.
  const std::span<const Block> blocks = std::span(blocks_of_batch_).subspan(begin, end - begin);
  const BlockPart* ac = &parts_[begin * kPartsPerBlock + 1];
  int* const last_places = to.last_places;
  for (const Block& block : blocks) {
    int16_t* const values = ac->block;
    int32_t& last_dc = block.component->last_dc;
    last_dc = WrappedSum(last_dc, values[0]);
    values[0] = static_cast<int16_t>(last_dc);
    int& of_group = last_places[block.group];
    of_group = std::max(of_group, static_cast<int>(ac->last_place));
    ac += kPartsPerBlock;
  }
}

void SequentialDecoder::TransformBatch(int first_mcu, const Coefficients& from,
                                       const PlaneRows& planes, int row_of_mcus,
                                       const ScanPiece::Dcs* dcs) {
  const int count = std::min(mcus_per_batch_, mcus_per_row_ - first_mcu);
  int16_t* values = from.values;
  int* last_place = from.last_places;
  for (const Group& group : groups_of_batch_) {
    const Component& component = *group.component;
    int16_t* const coefficients = std::exchange(values, values + group_values());
    int& last = *last_place++;
    if (!component.needed) continue;
    const int first_row = row_of_mcus * component.in_frame->block_size + group.first_row;
    const SampleBlock& plane = planes[component.index];
    const auto column = static_cast<size_t>(first_mcu) * component.mcu_width + group.first_column;
    const SampleBlock to{plane.Row(static_cast<size_t>(first_row)) + column, plane.stride};
    const int place = std::exchange(last, 0);
    if (dcs != nullptr) AddDc((*dcs)[component.in_scan], coefficients);
    if (count == mcus_per_batch_) [[likely]] {
      component.inverse_dct(coefficients, component.quantization, place, to);
      continue;
    }
    const int blocks = std::min(count * component.h - group.first_block, transform_.blocks());
    if (blocks <= 0) continue;
    transform_.Run(*component.in_frame, coefficients, component.quantization, place, blocks, to);
  }
}

}  // namespace endcap
