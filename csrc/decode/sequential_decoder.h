#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "decode/block_reader.h"
#include "decode/group_transform.h"
#include "decode/huffman_block.h"
#include "decode/jpeg_frame.h"
#include "decode/jpeg_markers.h"
#include "decode/scan_reader.h"

namespace endcap {

// Coefficients in groups as the inverse DCT takes them, as many as have a place.
struct CoefficientChunk {
  struct alignas(64) Line {
    std::array<int16_t, 32> values;
  };
  static constexpr size_t kBytes = size_t{64} << 10;
  explicit CoefficientChunk(size_t bytes = kBytes)
      : lines(bytes / sizeof(Line)), last_places(bytes / sizeof(int16_t) / kBlockValues) {}

  std::vector<Line> lines;       // 0 where nothing was decoded
  std::vector<int> last_places;  // of each group, see InverseDct
};

// MCUs that follow each other in a scan, decoded without knowing which they are.
struct ScanPiece {
  using Dcs = std::array<int32_t, kMaxJpegComponents>;  // by their order in the scan

  ScanPosition begin;
  ScanPosition end;
  bool is_whole = false;  // reaches the mark
  int mcus = 0;
  Dcs last_dcs{};  // from 0 at the beginning, or at the last restart marker
  std::vector<CoefficientChunk> chunks;
};

// Decodes the image data of a sequential file whose only scan has all components, from its bits to
// samples, and keeps a few blocks of it at a time. Samples and errors are libjpeg-turbo's.
class SequentialDecoder {
 public:
  // Whether it can. Of other files libjpeg-turbo decodes some, and has errors for the rest.
  static bool CanDecode(const JpegMarkers& markers) noexcept;
  // file: CanDecode is true of its markers. All must live as long as the decoder. Of components
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

  // The same in two steps, for pieces of the scan that several decoders of the file read at a time.
  // A decoder that does them is not asked for rows, and this makes another of the same scan. Throws
  // std::bad_alloc.
  std::unique_ptr<SequentialDecoder> MakeAnother() const;

  // Rows of samples, from an MCU row of the image on; without data where no sample is wanted.
  using RowsOf = std::function<PlaneRows(int mcu_row)>;

  int mcu_rows() const noexcept { return frame_.mcu_rows; }  // of the image
  // MCUs of the scan that cover the image down to an MCU row.
  int mcus_until(int end_mcu_row) const noexcept {
    return mcus_per_row_ * std::min(end_mcu_row * rows_of_mcus_, mcu_rows_);
  }
  // The MCU row of the image that an MCU of the scan is in.
  int mcu_row_of(int mcu) const noexcept { return mcu / mcus_per_row_ / rows_of_mcus_; }
  // Whether the rows are long enough for pieces.
  bool CanReadPieces() const noexcept { return mcus_per_row_ >= mcus_per_batch_; }
  // Bytes of a piece for each MCU.
  size_t bytes_per_mcu() const noexcept {
    return bytes_per_batch() / static_cast<size_t>(mcus_per_batch_);
  }
  // Finds where an MCU begins, from `mark` on: a reader that begins anywhere, here at `from`, soon
  // reads the codes that are there, but not surely. Throws kCorruptImage where it did not.
  ScanPosition Synchronize(const uint8_t* from, const uint8_t* mark);
  // Reads from piece.begin up to `mark`, or the end of an MCU behind it; at most `most` MCUs,
  // about `enough`. Throws kCorruptImage, std::bad_alloc, and leaves the piece without a meaning.
  void ReadPiece(ScanPiece& piece, const uint8_t* mark, int enough, int most);
  // Computes the samples of a piece whose first MCU, and the DCs before it, are known. Clears it.
  void TransformPiece(ScanPiece& piece, int first_mcu, const ScanPiece::Dcs& dcs,
                      const RowsOf& rows_of);

  // After the last row, or the piece that ends the scan.
  ScanReader& data() noexcept { return reader_; }
  const ScanReader& data() const noexcept { return reader_; }

 private:
  // A component, and the blocks that it has in the MCUs of a batch.
  struct Component {
    size_t index = 0;    // in the file
    size_t in_scan = 0;  // its place there
    const JpegComponent* in_frame = nullptr;
    int h = 1;  // blocks of an MCU in a row
    int v = 1;  // rows of blocks of an MCU
    bool needed = true;
    std::shared_ptr<const BlockTable> dc;
    std::shared_ptr<const BlockTable> ac;
    const int16_t* quantization = nullptr;
    InverseDct inverse_dct = nullptr;
    size_t mcu_width = 0;  // in samples
    size_t mcu_height = 0;
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
  size_t bytes_per_batch() const noexcept {
    return groups_of_batch_.size() * group_values() * sizeof(int16_t);
  }
  Coefficients BatchOf(CoefficientChunk& chunk, size_t batch) const noexcept;
  Coefficients BatchOf(ScanPiece& piece, int mcu) const;
  size_t group_values() const noexcept {
    return kBlockValues * static_cast<size_t>(transform_.blocks());
  }
  bool IsNeeded(int first_mcu) const noexcept {
    return first_mcu + mcus_per_batch_ > first_needed_mcu_ && first_mcu < end_of_needed_mcus_;
  }
  void SetDestination(const Coefficients& to) noexcept;
  void ReadBatch(int first_mcu, bool skips, const Coefficients& to);
  void ReadBlocksOf(int begin_mcu, int end_mcu, const Coefficients& to);
  void Clear(const Coefficients& batch) const noexcept;
  // row_of_mcus: in the row of MCUs of the image. dcs: to be added; null: they are.
  void TransformBatch(int first_mcu, const Coefficients& from, const PlaneRows& planes,
                      int row_of_mcus, const ScanPiece::Dcs* dcs);
  void TransformApart(const Coefficients& from, int first_mcu, int count, const RowsOf& rows_of,
                      const ScanPiece::Dcs& dcs);
  void AddDc(int32_t dc, int16_t* coefficients) const noexcept {
    const size_t blocks = group_values() / kBlockValues;
    for (size_t i = 0; i < blocks; ++i) {
      int16_t& value = coefficients[i * kBlockSide];
      value = static_cast<int16_t>(WrappedSum(value, dc));
    }
  }
  void RestartDcs() noexcept {
    for (Component& component : components_) component.last_dc = 0;
  }

  static constexpr size_t kGroupValues = GroupTransform::kGroupValues;

  // What is aligned comes first, so that the object has no gaps.
  GroupTransform transform_;
  alignas(64) std::array<int16_t, kGroupValues> unneeded_block_{};
  alignas(64) std::array<std::array<int16_t, kGroupValues>, kMaxJpegComponents> quantization_{};
  const std::span<const uint8_t> file_;
  const JpegMarkers& markers_;
  const JpegFrame& frame_;
  size_t needed_components_;
  std::vector<Component> components_;
  std::vector<Group> groups_of_batch_;
  std::vector<Block> blocks_of_batch_;  // MCU after MCU
  std::vector<BlockPart> parts_;        // two for each block, then the stop part
  const int16_t* destination_ = nullptr;
  CoefficientChunk batch_{0};
  std::array<std::vector<uint8_t>, kMaxJpegComponents> apart_;  // samples of a batch
  ScanReader reader_;
  int mcus_per_batch_ = 1;
  int mcu_width_ = 0;  // in columns of the image
  int mcus_per_row_ = 0;
  int first_needed_mcu_ = 0;  // of a row
  int end_of_needed_mcus_ = 0;
  int rows_of_mcus_ = 1;  // in a row of MCUs of the image: several of a component that is alone
  int mcu_rows_ = 0;
  int mcu_rows_to_go_ = 0;
};

}  // namespace endcap
