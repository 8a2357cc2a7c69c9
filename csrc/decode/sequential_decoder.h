#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decode/block_reader.h"
#include "decode/group_transform.h"
#include "decode/jpeg_frame.h"
#include "decode/jpeg_markers.h"
#include "decode/scan_reader.h"

namespace endcap {

// The coefficients of a row of MCUs, in groups as the inverse DCT takes them.
struct CoefficientRow {
  struct alignas(64) Line {
    std::array<int16_t, 32> values;
  };

  int16_t* values() noexcept { return lines.front().values.data(); }

  std::vector<Line> lines;       // 0 where nothing was decoded
  std::vector<int> last_places;  // of each group, see InverseDct
  int rows = 0;                  // of the MCUs of a component that is alone; else 1
};

// Decodes the image data of a sequential file whose only scan has all components, from its bits to
// samples, and keeps a few blocks of it at a time. Samples and errors are libjpeg-turbo's.
class SequentialDecoder {
 public:
  // Whether it can. Of other files libjpeg-turbo decodes some, and has errors for the rest.
  static bool CanDecode(const JpegMarkers& markers) noexcept;
  // file: CanDecode is true of its markers. frame: must live as long as the decoder. Of components
  // from `needed_components` on no sample is computed. Throws std::bad_alloc.
  SequentialDecoder(std::span<const uint8_t> file, const JpegMarkers& markers,
                    const JpegFrame& frame, size_t needed_components);
  SequentialDecoder(const SequentialDecoder&) = delete;
  SequentialDecoder& operator=(const SequentialDecoder&) = delete;

  // Computes no samples of MCUs outside of these columns of the image.
  void NeedColumns(int begin, int end) noexcept;

  // Decodes the next row of MCUs. planes: null to read the codes and compute no sample. Throws
  // kCorruptImage for damage, and is not to be called again then.
  void ReadMcuRow(const PlaneRows* planes);

  // The same in two steps, so that the codes of rows can be read ahead of their transform, by
  // another thread. ReadCodes is called for one row after the other, each with memory that
  // MakeCoefficientRow gave and that Transform has taken the last row of. Then ReadMcuRow is not to
  // be called.
  CoefficientRow MakeCoefficientRow() const;
  size_t coefficient_row_bytes() const noexcept {
    return batches_per_row() * groups_of_batch_.size() * group_values() * sizeof(int16_t);
  }
  void ReadCodes(CoefficientRow& row);
  void Transform(CoefficientRow& row, const PlaneRows* planes);

  // After the last row.
  ScanReader& data() noexcept { return reader_; }

 private:
  // A component, and the blocks that it has in the MCUs of a batch.
  struct Component {
    size_t index = 0;  // in the file
    const JpegComponent* in_frame = nullptr;
    int h = 1;  // blocks of an MCU in a row
    int v = 1;  // rows of blocks of an MCU
    bool needed = true;
    std::shared_ptr<const BlockTable> dc;
    std::shared_ptr<const BlockTable> ac;
    const int16_t* quantization = nullptr;
    InverseDct inverse_dct = nullptr;
    size_t mcu_width = 0;  // in samples
    int32_t last_dc = 0;
  };

  // A block of a batch, which has two parts: its DC code and its AC codes.
  struct Block {
    Component* component = nullptr;
    size_t group = 0;
    size_t offset = 0;  // in the coefficients of the batch
  };
  static constexpr size_t kPartsPerBlock = 2;
  // A group of blocks of a batch.
  struct Group {
    const Component* component = nullptr;
    int first_block = 0;      // among those of its component and row
    size_t first_column = 0;  // its samples in the plane, behind the first of the batch
    int first_row = 0;        // of a row of MCUs
  };

  // Those of a batch.
  struct Coefficients {
    int16_t* values = nullptr;
    int* last_places = nullptr;  // of its groups
  };

  void Add(const ScanHeader::Component& in_scan, const JpegMarkers& markers, bool alone);
  void PlaceGroups();
  void PlaceBlocks();
  CoefficientRow MakeCoefficients(size_t batches) const;
  Coefficients BatchOf(CoefficientRow& row, size_t batch) const noexcept;
  size_t batches_per_row() const noexcept;
  size_t group_values() const noexcept {
    return kBlockValues * static_cast<size_t>(transform_.blocks());
  }
  bool IsNeeded(int first_mcu) const noexcept {
    return first_mcu + mcus_per_batch_ > first_needed_mcu_ && first_mcu < end_of_needed_mcus_;
  }
  void SetDestination(const Coefficients& to) noexcept;
  void ReadBatch(int first_mcu, bool skips, const Coefficients& to);
  void ReadBlocksOf(int begin_mcu, int end_mcu, const Coefficients& to);
  void TransformBatch(int first_mcu, const Coefficients& from, const PlaneRows& planes,
                      int row_of_mcus);

  static constexpr size_t kGroupValues = GroupTransform::kGroupValues;

  // What is aligned comes first, so that the object has no gaps.
  GroupTransform transform_;
  alignas(64) std::array<int16_t, kGroupValues> unneeded_block_{};
  alignas(64) std::array<std::array<int16_t, kGroupValues>, kMaxJpegComponents> quantization_{};
  const JpegFrame& frame_;
  size_t needed_components_;
  std::vector<Component> components_;
  std::vector<Group> groups_of_batch_;
  std::vector<Block> blocks_of_batch_;  // MCU after MCU
  std::vector<BlockPart> parts_;        // two for each block, then the stop part
  const int16_t* destination_ = nullptr;
  CoefficientRow batch_;
  ScanReader reader_;
  int mcus_per_batch_ = 1;
  int mcu_width_ = 0;  // in columns of the image
  int mcus_per_row_ = 0;
  int first_needed_mcu_ = 0;  // of a row
  int end_of_needed_mcus_ = 0;
  int rows_of_mcus_ = 1;  // in a row of MCUs of the image: several of a component that is alone
  int mcu_rows_to_go_ = 0;
};

}  // namespace endcap
