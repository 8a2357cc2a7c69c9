#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/group_transform.h"
#include "decode/huffman_block.h"
#include "decode/jpeg_frame.h"
#include "decode/jpeg_markers.h"

namespace endcap {

// The coefficients of a component, of all its blocks: what the scans of a file bring together.
struct CoefficientPlane {
  // With the blocks of whole MCUs. Throws std::bad_alloc.
  CoefficientPlane(const JpegFrame& frame, const JpegComponent& component);

  int16_t* block(int y, int x) noexcept {
    return coefficients.data() +
           (static_cast<size_t>(y) * blocks_per_row + static_cast<size_t>(x)) * kBlockValues;
  }

  int16_t* dc(int y, int x) noexcept {
    return dcs.data() + static_cast<size_t>(y) * blocks_per_row + static_cast<size_t>(x);
  }

  size_t blocks_per_row = 0;
  // AC coefficients in the order of rows, 64 to a block, the first of which has no meaning; and DC
  // coefficients apart, for a scan of these would else touch all of the memory.
  std::vector<int16_t> coefficients;
  std::vector<int16_t> dcs;
  // Of each block that holds samples of the image the places of AC coefficients that are not 0, see
  // ProgressiveBlock; in a sequential file the last of them.
  std::vector<uint64_t> nonzero;
};

// Decodes one scan of a file of several; data: what follows its header. Throws kCorruptImage for
// damage, std::bad_alloc.
void DecodeScan(std::span<const uint8_t> data, const ScanHeader& scan, const JpegTables& tables,
                const JpegFrame& frame, std::span<CoefficientPlane> planes);

// Decodes files of several scans, progressive or sequential: all scans to the coefficients of the
// whole image, and these to samples, a row of MCUs at a time. Samples are libjpeg-turbo's; damage
// anywhere in the file is an error.
class MultiScanDecoder {
 public:
  // Whether it can: each scan is what encoders write, and follows from those before it; a
  // progressive file has all its bits, so that libjpeg-turbo would not smooth what lacks some.
  // scan_count: of the file's header, whose limits were checked.
  static bool CanDecode(std::span<const uint8_t> file, const JpegMarkers& markers,
                        int scan_count) noexcept;
  // Reads the scans. The arguments as of SequentialDecoder. Throws kCorruptImage for damage and for
  // bytes that are no longer those of CanDecode, std::bad_alloc.
  MultiScanDecoder(std::span<const uint8_t> file, const JpegMarkers& markers,
                   const JpegFrame& frame, size_t needed_components, int scan_count);
  MultiScanDecoder(const MultiScanDecoder&) = delete;
  MultiScanDecoder& operator=(const MultiScanDecoder&) = delete;

  // As of SequentialDecoder.
  void NeedColumns(int begin, int end) noexcept;
  void ReadMcuRow(const PlaneRows* planes);

 private:
  static constexpr size_t kGroupValues = GroupTransform::kGroupValues;

  void ReadScans(std::span<const uint8_t> file, const JpegMarkers& markers, int scan_count);
  void TransformRow(size_t index, int block_row, SampleBlock to);
  int LoadGroup(size_t index, int block_row, int first_block, int count);

  // What is aligned comes first, so that the object has no gaps.
  GroupTransform transform_;
  alignas(64) std::array<int16_t, kGroupValues> group_{};
  alignas(64) std::array<std::array<int16_t, kGroupValues>, kMaxJpegComponents> quantization_{};
  const JpegFrame& frame_;
  size_t needed_components_;
  std::vector<CoefficientPlane> planes_;
  int begin_column_ = 0;
  int end_column_ = 0;
  int mcu_row_ = 0;
};

}  // namespace endcap
