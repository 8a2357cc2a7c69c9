#include <array>
#include <memory>

#include "decode/block_reader.h"
#include "decode/huffman_table.h"
#include "decode/multi_scan_decoder.h"
#include "decode/progressive_block.h"
#include "decode/scan_reader.h"

namespace endcap {
namespace {

// What a scan brings of each block. Source: ITU-T T.81, G.1.1.
enum class ScanKind { kSequential, kFirstDc, kDcBit, kFirstAc, kAcBits };

ScanKind KindOf(const ScanHeader& scan, bool progressive) noexcept {
  if (!progressive) return ScanKind::kSequential;
  if (scan.first == 0) return scan.high == 0 ? ScanKind::kFirstDc : ScanKind::kDcBit;
  return scan.high == 0 ? ScanKind::kFirstAc : ScanKind::kAcBits;
}

DecodeAcBits FastestAcBits() {
  const DecodeAcBits by_deposit = DecodeAcBitsByDeposit();
  return by_deposit != nullptr ? by_deposit : DecodeAcBitsAnywhere;
}

class ScanDecoder {
 public:
  ScanDecoder(std::span<const uint8_t> data, const ScanHeader& scan, const JpegTables& tables,
              const JpegFrame& frame, std::span<CoefficientPlane> planes)
      : frame_(frame),
        kind_(KindOf(scan, frame.progressive)),
        band_{static_cast<size_t>(scan.first), static_cast<size_t>(scan.last),
              static_cast<unsigned>(scan.low)},
        reader_(data, tables.restart_interval) {
    for (size_t i = 0; i < scan.component_count; ++i) {
      const ScanHeader::Component& in_scan = scan.components[i];
      Component& added = components_[component_count_++];
      added.in_frame = &frame.components[in_scan.index];
      added.plane = &planes[in_scan.index];
      const HuffmanCodes& dc = tables.dc[in_scan.dc_table].codes;
      const HuffmanCodes& ac = tables.ac[in_scan.ac_table].codes;
      if (kind_ == ScanKind::kSequential) {
        added.blocks_dc = GetBlockTable(BlockTable::Use::kDc, dc);
        added.blocks_ac = GetBlockTable(BlockTable::Use::kAc, ac);
      } else if (kind_ == ScanKind::kFirstDc) {
        added.table = GetHuffmanTable(HuffmanTable::Use::kDc, dc);
      } else if (kind_ == ScanKind::kFirstAc) {
        added.table = GetHuffmanTable(HuffmanTable::Use::kBands, ac);
      } else if (kind_ == ScanKind::kAcBits) {
        added.table = GetHuffmanTable(HuffmanTable::Use::kBits, ac);
      }
    }
  }

  void Decode() {
    switch (kind_) {
      case ScanKind::kSequential:
        return DecodeMcus<ScanKind::kSequential>();
      case ScanKind::kFirstDc:
        return DecodeMcus<ScanKind::kFirstDc>();
      case ScanKind::kDcBit:
        return DecodeMcus<ScanKind::kDcBit>();
      case ScanKind::kFirstAc:
        return DecodeMcus<ScanKind::kFirstAc>();
      case ScanKind::kAcBits:
        return DecodeMcus<ScanKind::kAcBits>();
    }
  }

 private:
  struct Component {
    const JpegComponent* in_frame = nullptr;
    CoefficientPlane* plane = nullptr;
    std::shared_ptr<const HuffmanTable> table;    // of a progressive scan, which has one kind
    std::shared_ptr<const BlockTable> blocks_dc;  // of a sequential one
    std::shared_ptr<const BlockTable> blocks_ac;
    int32_t last_dc = 0;
  };

  // A component that is alone has an MCU for each of its blocks that holds samples.
  template <ScanKind kind>
  void DecodeMcus() {
    if (component_count_ == 1) {
      Component& component = components_[0];
      for (int y = 0; y < component.in_frame->height_in_blocks; ++y) {
        for (int x = 0; x < component.in_frame->width_in_blocks; ++x) {
          BeginMcu();
          DecodeBlock<kind>(component, y, x);
        }
      }
      return;
    }
    for (int y = 0; y < frame_.mcu_rows; ++y) {
      for (int x = 0; x < frame_.mcus_per_row; ++x) {
        BeginMcu();
        for (size_t i = 0; i < component_count_; ++i) DecodeBlocks<kind>(components_[i], y, x);
      }
    }
  }

  void BeginMcu() {
    const bool restarts = reader_.BeginInterval();
    reader_.TakeMcus(1);
    if (!restarts) return;
    for (Component& component : components_) component.last_dc = 0;
    eob_run_ = 0;
  }

  // The blocks of a component in an MCU.
  template <ScanKind kind>
  void DecodeBlocks(Component& component, int mcu_y, int mcu_x) {
    const int h = component.in_frame->h;
    const int v = component.in_frame->v;
    for (int y = mcu_y * v; y < (mcu_y + 1) * v; ++y) {
      for (int x = mcu_x * h; x < (mcu_x + 1) * h; ++x) DecodeBlock<kind>(component, y, x);
    }
  }

  template <ScanKind kind>
  void DecodeBlock(Component& component, int y, int x) {
    if constexpr (kind == ScanKind::kSequential) {
      ReadSequentialBlock(component, y, x);
    } else if constexpr (kind == ScanKind::kFirstDc || kind == ScanKind::kDcBit) {
      const bool may_end = reader_.BeginBlock();
      bool good = true;
      if constexpr (kind == ScanKind::kFirstDc) {
        good = DecodeFirstDc(reader_.bits(), *component.table, band_.low, component.last_dc,
                             component.plane->dc(y, x));
      } else {
        DecodeDcBit(reader_.bits(), band_.low, component.plane->dc(y, x));
      }
      reader_.EndBlock(may_end, good);
    } else {
      uint64_t* nonzero = NonzeroOf(component, y, x);
      if (SkipsBlock<kind>(nonzero)) return;
      const bool may_end = reader_.BeginBlock();
      const ProgressiveBlock block{component.plane->block(y, x), nonzero};
      reader_.EndBlock(may_end, DecodeCoefficients<kind>(component, block));
    }
  }

  // Null for a block of an MCU that holds no sample of the image.
  static uint64_t* NonzeroOf(const Component& component, int y, int x) {
    const JpegComponent& in_frame = *component.in_frame;
    if (y >= in_frame.height_in_blocks || x >= in_frame.width_in_blocks) return nullptr;
    const auto row = static_cast<size_t>(y) * static_cast<size_t>(in_frame.width_in_blocks);
    return component.plane->nonzero.data() + row + static_cast<size_t>(x);
  }

  // Most blocks of a progressive scan have no bit of their own. Skips such a one; returns false
  // where there is something to read.
  template <ScanKind kind>
  bool SkipsBlock(const uint64_t* nonzero) {
    if (eob_run_ == 0) return false;
    if (kind == ScanKind::kAcBits && (*nonzero & band_places_) != 0) return false;
    --eob_run_;
    return true;
  }

  template <ScanKind kind>
  bool DecodeCoefficients(Component& component, const ProgressiveBlock& block) {
    ScanBits& bits = reader_.bits();
    if constexpr (kind == ScanKind::kFirstAc) {
      return DecodeFirstAc(bits, *component.table, band_, eob_run_, block);
    } else {
      return decode_ac_bits_(bits, *component.table, band_, eob_run_, block);
    }
  }

  void ReadSequentialBlock(Component& component, int y, int x) {
    int16_t* const coefficients = component.plane->block(y, x);
    std::array<BlockPart, 3> parts = {{{component.blocks_dc.get(), coefficients},
                                       {component.blocks_ac.get(), coefficients},
                                       {&StopTable(), behind_blocks_.data()}}};
    ReadBlocks(reader_, parts.data(), kNaturalOrder);
    component.last_dc = WrappedSum(component.last_dc, coefficients[0]);
    *component.plane->dc(y, x) = static_cast<int16_t>(component.last_dc);
    uint64_t* const nonzero = NonzeroOf(component, y, x);
    if (nonzero != nullptr) *nonzero = PlaceBit(parts[1].last_place);
  }

  const JpegFrame& frame_;
  ScanKind kind_;
  SpectralBand band_;
  uint64_t band_places_ = PlacesFrom(band_.first) & ~PlacesFrom(band_.last + 1);
  DecodeAcBits decode_ac_bits_ = FastestAcBits();
  std::array<Component, kMaxJpegComponents> components_;
  size_t component_count_ = 0;
  uint32_t eob_run_ = 0;
  ScanReader reader_;
  std::array<int16_t, kBlockValues> behind_blocks_{};
};

}  // namespace

CoefficientPlane::CoefficientPlane(const JpegFrame& frame, const JpegComponent& component)
    : blocks_per_row(static_cast<size_t>(frame.mcus_per_row * component.h)),
      coefficients(blocks_per_row * static_cast<size_t>(frame.mcu_rows * component.v) *
                   kBlockValues),
      dcs(coefficients.size() / kBlockValues),
      nonzero(static_cast<size_t>(component.width_in_blocks) *
              static_cast<size_t>(component.height_in_blocks)) {}

void DecodeScan(std::span<const uint8_t> data, const ScanHeader& scan, const JpegTables& tables,
                const JpegFrame& frame, std::span<CoefficientPlane> planes) {
  ScanDecoder(data, scan, tables, frame, planes).Decode();
}

}  // namespace endcap
