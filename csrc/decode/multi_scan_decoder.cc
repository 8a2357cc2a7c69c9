#include "decode/multi_scan_decoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "decode/file_formats.h"

namespace endcap {
namespace {

// Which scans may follow in a file, and what they have brought.
class ScanOrder {
 public:
  explicit ScanOrder(const JpegMarkers& markers) : markers_(markers) {
    for (auto& of_component : low_) of_component.fill(kNothing);
  }

  // Whether a scan brings what it says it does: in a sequential file each component once; in a
  // progressive one the next bit of coefficients, DC before AC. Source: ITU-T T.81, G.1.1.1.
  bool Add(const ScanHeader& scan) noexcept {
    if (markers_.progressive() ? !IsBand(scan) : !scan.is_whole()) return false;
    for (size_t i = 0; i < scan.component_count; ++i) {
      std::array<int8_t, kBlockValues>& low = low_[scan.components[i].index];
      if (scan.first > 0 && low[0] == kNothing) return false;
      for (int k = scan.first; k <= scan.last; ++k) {
        int8_t& of_place = low[static_cast<size_t>(k)];
        if (of_place != (scan.high == 0 ? kNothing : scan.high)) return false;
        of_place = static_cast<int8_t>(scan.low);
      }
    }
    return true;
  }

  // Whether the image is complete as far as libjpeg-turbo looks before it smooths blocks.
  bool IsComplete() const noexcept {
    constexpr size_t kPlacesForSmoothing = 10;
    for (size_t i = 0; i < static_cast<size_t>(markers_.component_count); ++i) {
      if (low_[i][0] == kNothing) return false;
      for (size_t k = 1; k < kPlacesForSmoothing; ++k) {
        if (low_[i][k] != 0) return false;
      }
    }
    return true;
  }

 private:
  static constexpr int8_t kNothing = -1;
  static constexpr int kLast = kBlockValues - 1;
  static constexpr int kMaxLowBit = 13;

  static bool IsBand(const ScanHeader& scan) {
    const bool is_dc = scan.first == 0 && scan.last == 0;
    const bool is_ac = scan.first > 0 && scan.last >= scan.first && scan.last <= kLast &&
                       scan.component_count == 1;
    return (is_dc || is_ac) && scan.low <= kMaxLowBit &&
           (scan.high == 0 || scan.low == scan.high - 1);
  }

  const JpegMarkers& markers_;
  // The lowest bit of each coefficient that scans have brought.
  std::array<std::array<int8_t, kBlockValues>, kMaxJpegComponents> low_;
};

}  // namespace

bool MultiScanDecoder::CanDecode(std::span<const uint8_t> file, const JpegMarkers& markers,
                                 int scan_count) noexcept {
  if (!markers.first_scan || !markers.has_several_scans()) return false;
  ScanIterator scans(file, markers);
  ScanOrder order(markers);
  for (int count = 1;; ++count) {
    const bool good = count <= scan_count && order.Add(scans.scan()) &&
                      CanDecodeScan(scans.scan(), scans.tables(), markers);
    if (!good) return false;
    const ScanIterator::Step step = scans.Next();
    if (step == ScanIterator::Step::kIrregular) return false;
    if (step == ScanIterator::Step::kEndMarker) return order.IsComplete();
  }
}

MultiScanDecoder::MultiScanDecoder(std::span<const uint8_t> file, const JpegMarkers& markers,
                                   const JpegFrame& frame, size_t needed_components, int scan_count)
    : frame_(frame), needed_components_(needed_components), end_column_(frame.width) {
  planes_.reserve(frame.component_count);
  for (size_t i = 0; i < frame.component_count; ++i) {
    planes_.emplace_back(frame, frame.components[i]);
  }
  ReadScans(file, markers, scan_count);
}

// The bytes may have changed since CanDecode, so that all of it is asked again.
void MultiScanDecoder::ReadScans(std::span<const uint8_t> file, const JpegMarkers& markers,
                                 int scan_count) {
  ScanIterator scans(file, markers);
  ScanOrder order(markers);
  unsigned has_quantization = 0;
  auto step = ScanIterator::Step::kScan;
  for (int count = 1; step == ScanIterator::Step::kScan; ++count) {
    const ScanHeader& scan = scans.scan();
    const bool good =
        count <= scan_count && order.Add(scan) && CanDecodeScan(scan, scans.tables(), markers);
    if (!good) FailChanged(FileFormat::kJpeg);
    for (size_t i = 0; i < scan.component_count; ++i) {
      // The tables of a component's first scan hold for all of them.
      const size_t index = scan.components[i].index;
      if ((has_quantization >> index & 1U) != 0) continue;
      has_quantization |= 1U << index;
      const size_t table = frame_.components[index].quantization;
      transform_.FillQuantization(scans.tables().quantization[table], quantization_[index].data());
    }
    DecodeScan(scans.data(), scan, scans.tables(), frame_, planes_);
    step = scans.Next();
  }
  if (step == ScanIterator::Step::kIrregular) FailChanged(FileFormat::kJpeg);
}

void MultiScanDecoder::NeedColumns(int begin, int end) noexcept {
  begin_column_ = std::max(begin, 0);
  end_column_ = std::min(end, frame_.width);
}

void MultiScanDecoder::ReadMcuRow(const PlaneRows* planes) {
  const int mcu_row = mcu_row_++;
  if (planes == nullptr) return;
  for (size_t i = 0; i < needed_components_; ++i) {
    const JpegComponent& component = frame_.components[i];
    for (int y = 0; y < component.v; ++y) {
      const int block_row = mcu_row * component.v + y;
      if (block_row >= component.height_in_blocks) break;
      const SampleBlock& plane = (*planes)[i];
      const int row = y * component.block_size;
      TransformRow(i, block_row, {plane.Row(static_cast<size_t>(row)), plane.stride});
    }
  }
}

// The samples of a row of blocks, as far as columns are needed.
void MultiScanDecoder::TransformRow(size_t index, int block_row, SampleBlock to) {
  const JpegComponent& component = frame_.components[index];
  const int group = transform_.blocks();
  const int columns_per_mcu = frame_.columns_per_mcu();
  const int first = begin_column_ / columns_per_mcu * component.h / group * group;
  const int end_mcu = (end_column_ + columns_per_mcu - 1) / columns_per_mcu;
  const int end = std::min(end_mcu * component.h, component.width_in_blocks);
  for (int x = first; x < end; x += group) {
    const int count = std::min(group, component.width_in_blocks - x);
    const int last_place = LoadGroup(index, block_row, x, count);
    const ptrdiff_t column = ptrdiff_t{x} * component.block_size;
    transform_.Run(component, group_.data(), quantization_[index].data(), last_place, count,
                   {to.data + column, to.stride});
  }
}

// Copies the blocks of a group to `group_`, which is all zeros. Returns the place of their last
// coefficient that is not 0.
int MultiScanDecoder::LoadGroup(size_t index, int block_row, int first_block, int count) {
  CoefficientPlane& plane = planes_[index];
  const auto width_in_blocks = static_cast<size_t>(frame_.components[index].width_in_blocks);
  const uint64_t* nonzero = plane.nonzero.data() +
                            static_cast<size_t>(block_row) * width_in_blocks +
                            static_cast<size_t>(first_block);
  uint64_t places = 0;
  for (int b = 0; b < count; ++b) places |= nonzero[b];
  const int last_place =
      places == 0 ? 0 : static_cast<int>(kBlockValues) - 1 - std::countr_zero(places);
  const size_t row_values = static_cast<size_t>(transform_.blocks()) * kBlockSide;
  for (int b = 0; b < count; ++b) {
    const int16_t* block = plane.block(block_row, first_block + b);
    int16_t* const first = group_.data() + ptrdiff_t{b} * kBlockSide;
    int16_t* to = first;
    for (int row = 0; row < RowsUpTo(last_place); ++row) {
      std::memcpy(to, block, kBlockSide * sizeof(int16_t));
      block += kBlockSide;
      to += row_values;
    }
    *first = *plane.dc(block_row, first_block + b);
  }
  return last_place;
}

}  // namespace endcap
