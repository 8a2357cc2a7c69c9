#include "decode/sequential_decoder.h"

#include <algorithm>
#include <utility>

#include "decode/huffman_block.h"

namespace endcap {
namespace {

int CeilDivide(int a, int b) { return (a + b - 1) / b; }

}  // namespace

bool SequentialDecoder::CanDecode(const JpegMarkers& markers) noexcept {
  if (!markers.first_scan || markers.has_several_scans()) return false;
  const ScanHeader& scan = *markers.first_scan;
  if (scan.first != 0 || scan.last != kBlockValues - 1 || scan.high != 0 || scan.low != 0) {
    return false;
  }
  size_t blocks = 0;
  for (size_t i = 0; i < scan.component_count; ++i) {
    const ScanHeader::Component& in_scan = scan.components[i];
    const JpegMarkers::Component& component = markers.components[in_scan.index];
    blocks += static_cast<size_t>(component.horizontal_sampling * component.vertical_sampling);
    const JpegTables& tables = markers.tables;
    if (!tables.dc[in_scan.dc_table].defined || !tables.ac[in_scan.ac_table].defined ||
        !tables.dc[in_scan.dc_table].codes.IsValid(true) ||
        !tables.ac[in_scan.ac_table].codes.IsValid(false) ||
        !tables.quantization[component.quantization].defined) {
      return false;
    }
  }
  return scan.component_count == 1 || blocks <= kMaxBlocksPerMcu;
}

SequentialDecoder::SequentialDecoder(std::span<const uint8_t> file, const JpegMarkers& markers,
                                     const JpegFrame& frame, size_t needed_components)
    : frame_(frame),
      needed_components_(needed_components),
      reader_(ScanIterator(file, markers).data(), markers.tables.restart_interval) {
  const ScanHeader& scan = *markers.first_scan;
  const bool alone = scan.component_count == 1;
  components_.reserve(scan.component_count);
  for (size_t i = 0; i < scan.component_count; ++i) Add(scan.components[i], markers, alone);
  PlaceBlocks();
  if (alone) {
    const JpegComponent& component = *components_[0].in_frame;
    mcu_width_ = component.block_size;
    mcus_per_row_ = component.width_in_blocks;
    rows_of_mcus_ = component.v;
    mcu_rows_to_go_ = component.height_in_blocks;
  } else {
    mcu_width_ = frame.columns_per_mcu();
    mcus_per_row_ = frame.mcus_per_row;
    mcu_rows_to_go_ = frame.mcu_rows;
  }
  end_of_needed_mcus_ = mcus_per_row_;
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
  added.in_frame = &in_frame;
  added.needed = in_scan.index < needed_components_;
  added.dc = GetHuffmanTable(HuffmanTable::Use::kDc, markers.tables.dc[in_scan.dc_table].codes);
  added.ac = GetHuffmanTable(HuffmanTable::Use::kAc, markers.tables.ac[in_scan.ac_table].codes);
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
  const int batch = transform_.blocks();
  for (const Component& component : components_) {
    for (int y = 0; y < component.v; ++y) {
      for (int x = 0; x < component.h; ++x) {
        const size_t index = component.first_group + static_cast<size_t>(y * component.h + x);
        groups_of_batch_.push_back({&component, index, x * batch, y});
      }
    }
  }
  mcus_.resize(static_cast<size_t>(batch));
  for (size_t place = 0; place < mcus_.size(); ++place) {
    for (Component& component : components_) {
      for (int y = 0; y < component.v; ++y) {
        for (int x = 0; x < component.h; ++x) {
          const int column = static_cast<int>(place) * component.h + x;
          const size_t group =
              component.first_group + static_cast<size_t>(y * component.h + column / batch);
          const auto lane = static_cast<size_t>(column % batch);
          mcus_[place].push_back({&component, group, group * group_values() + lane * kBlockSide});
        }
      }
    }
  }
}

void SequentialDecoder::NeedColumns(int begin, int end) noexcept {
  first_needed_mcu_ = std::max(begin, 0) / mcu_width_;
  end_of_needed_mcus_ = std::min(CeilDivide(end, mcu_width_), mcus_per_row_);
}

void SequentialDecoder::ReadMcuRow(const PlaneRows* planes) {
  const Coefficients batch{groups_.front().data(), last_places_.data()};
  for (int row = 0; row < rows_of_mcus_ && mcu_rows_to_go_ > 0; ++row, --mcu_rows_to_go_) {
    for (int mcu = 0; mcu < mcus_per_row_; mcu += transform_.blocks()) {
      const bool skips = planes == nullptr || !IsNeeded(mcu);
      ReadBatch(mcu, skips, batch);
      if (!skips) TransformBatch(mcu, batch, *planes, row);
    }
  }
}

// Of a row of MCUs of the image.
size_t SequentialDecoder::groups_per_row() const noexcept {
  const int batches = rows_of_mcus_ * CeilDivide(mcus_per_row_, transform_.blocks());
  return static_cast<size_t>(batches) * groups_of_batch_.size();
}

SequentialDecoder::Coefficients SequentialDecoder::BatchOf(CoefficientRow& row,
                                                           size_t batch) const noexcept {
  const size_t first_group = batch * groups_of_batch_.size();
  return {row.values() + first_group * group_values(), row.last_places.data() + first_group};
}

CoefficientRow SequentialDecoder::MakeCoefficientRow() const {
  const size_t groups = groups_per_row();
  CoefficientRow row;
  row.lines.resize(groups * group_values() / CoefficientRow::Line{}.values.size());
  row.last_places.resize(groups);
  return row;
}

void SequentialDecoder::ReadCodes(CoefficientRow& row) {
  size_t batch = 0;
  row.rows = 0;
  for (; row.rows < rows_of_mcus_ && mcu_rows_to_go_ > 0; ++row.rows, --mcu_rows_to_go_) {
    for (int mcu = 0; mcu < mcus_per_row_; mcu += transform_.blocks(), ++batch) {
      ReadBatch(mcu, !IsNeeded(mcu), BatchOf(row, batch));
    }
  }
}

void SequentialDecoder::Transform(CoefficientRow& row, const PlaneRows* planes) {
  if (planes == nullptr) {
    std::ranges::fill(row.lines, CoefficientRow::Line{});
    std::ranges::fill(row.last_places, 0);
    return;
  }
  size_t batch = 0;
  for (int y = 0; y < row.rows; ++y) {
    for (int mcu = 0; mcu < mcus_per_row_; mcu += transform_.blocks(), ++batch) {
      if (IsNeeded(mcu)) TransformBatch(mcu, BatchOf(row, batch), *planes, y);
    }
  }
}

void SequentialDecoder::ReadBatch(int first_mcu, bool skips, const Coefficients& to) {
  const int count = std::min(transform_.blocks(), mcus_per_row_ - first_mcu);
  for (int place = 0; place < count; ++place) {
    if (reader_.BeginMcu()) {
      for (Component& component : components_) component.last_dc = 0;
    }
    for (const Block& block : mcus_[static_cast<size_t>(place)]) ReadBlock(block, skips, to);
  }
}

void SequentialDecoder::ReadBlock(const Block& block, bool skips, const Coefficients& to) {
  const bool may_end = reader_.BeginBlock();
  Component& component = *block.component;
  if (skips || !component.needed) {
    reader_.EndBlock(may_end, SkipSequentialBlock(reader_.bits(), *component.dc, *component.ac,
                                                  component.last_dc));
    return;
  }
  const int last_place =
      DecodeSequentialBlock(reader_.bits(), *component.dc, *component.ac, component.last_dc,
                            to.values + block.offset, transform_.order().data());
  reader_.EndBlock(may_end, last_place != kBadCode);
  int& of_group = to.last_places[block.group];
  of_group = std::max(of_group, last_place);
}

// The samples of a batch. row_of_mcus: in the row of MCUs of the image.
void SequentialDecoder::TransformBatch(int first_mcu, const Coefficients& from,
                                       const PlaneRows& planes, int row_of_mcus) {
  const int count = std::min(transform_.blocks(), mcus_per_row_ - first_mcu);
  for (const Group& group : groups_of_batch_) {
    const Component& component = *group.component;
    if (!component.needed) continue;
    const int blocks = std::min(count * component.h - group.first_block, transform_.blocks());
    if (blocks <= 0) continue;
    const int block_size = component.in_frame->block_size;
    const int first_block = first_mcu * component.h + group.first_block;
    const int first_row = (row_of_mcus + group.row_of_blocks) * block_size;
    transform_.Run(*component.in_frame, from.values + group.index * group_values(),
                   component.quantization, std::exchange(from.last_places[group.index], 0), blocks,
                   planes.rows[component.index] + first_row,
                   static_cast<size_t>(first_block * block_size));
  }
}

}  // namespace endcap
