#pragma once

// clang-format off
#include <cstdio>  // jpeglib.h uses FILE and size_t without including what declares them
#include <jpeglib.h>
// clang-format on

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "decode/huffman_table.h"
#include "decode/inverse_dct.h"
#include "decode/scan_bytes.h"

namespace endcap {

// Decodes the image data of a sequential Huffman-coded file whose only scan has all components, at
// full size: from the first byte behind the scan's header to samples. The headers are
// libjpeg-turbo's work. Samples and reported damage are those of libjpeg-turbo.
class SequentialDecoder {
 public:
  // Whether it can, after jpeg_read_header and with the output's scale set. Of what it cannot
  // decode libjpeg-turbo decodes some, and has errors for the rest.
  static bool CanDecode(const jpeg_decompress_struct& info) noexcept;
  // `info` must live as long as the decoder. Throws std::bad_alloc.
  explicit SequentialDecoder(const jpeg_decompress_struct& info);
  SequentialDecoder(const SequentialDecoder&) = delete;
  SequentialDecoder& operator=(const SequentialDecoder&) = delete;

  // Damage, by libjpeg-turbo's code of a warning; 0: none.
  struct Damage {
    int warning = 0;
    int marker = 0;    // that was found in the place of a restart marker
    int expected = 0;  // the number of that restart marker
  };

  // Computes no samples of MCUs outside of these columns of the image.
  void NeedColumns(int begin, int end) noexcept;

  // Decodes the next row of MCUs: `rows` has the rows of each component's plane, those of all MCUs
  // in full. Components that are not needed have none. No rows at all: the codes are read, and no
  // sample is computed. Nothing is decoded after damage.
  Damage ReadMcuRow(JSAMPIMAGE rows);

  // After the last row: the data behind the scan, and the marker before it, 0 where the file ends.
  uint8_t SkipToMarker() noexcept;
  std::span<const uint8_t> rest() const noexcept { return bytes_.rest(); }

 private:
  // A component, and the blocks that it has in the MCUs of a batch: as many MCUs as a group has
  // blocks.
  struct Component {
    int index = 0;  // in the file
    int h = 1;      // blocks of an MCU in a row
    int v = 1;      // rows of blocks of an MCU
    bool needed = true;
    std::shared_ptr<const HuffmanTable> dc;
    std::shared_ptr<const HuffmanTable> ac;
    const int16_t* quantization = nullptr;
    int32_t last_dc = 0;
    size_t first_group = 0;
  };
  static constexpr size_t kGroupValues = DCTSIZE2 * kMaxBlocksPerGroup;
  static constexpr size_t kMostGroups = D_MAX_BLOCKS_IN_MCU;

  // A block of an MCU.
  struct Block {
    Component* component = nullptr;
    int16_t* coefficients = nullptr;  // in its group
    int* last_place = nullptr;        // of its group
  };
  // A group of blocks of a batch.
  struct Group {
    const Component* component = nullptr;
    size_t index = 0;
    int first_block = 0;  // among those of its component and row
    int first_row = 0;    // of the samples of a row of MCUs
  };

  void Add(const jpeg_component_info& component, bool alone);
  void PlaceBlocks();
  bool BeginMcu();
  bool DecodeBlock(const Block& block, bool skips);
  void Transform(int first_mcu, int count, JSAMPIMAGE rows);
  void TransformGroup(const Group& group, int blocks, JSAMPARRAY rows, size_t column);

  const jpeg_decompress_struct& info_;
  InverseDctKernel kernel_ = FastestInverseDct();
  // The place in a group of a place in zigzag order.
  std::array<uint8_t, size_t{2} * DCTSIZE2> order_;
  std::vector<Component> components_;
  std::vector<Group> groups_of_batch_;
  std::vector<std::vector<Block>> mcus_;  // of a batch
  int mcu_width_ = DCTSIZE;               // in columns of the image
  int mcus_per_row_ = 0;
  int first_needed_mcu_ = 0;  // of a row
  int end_of_needed_mcus_ = 0;
  int rows_of_mcus_ = 1;  // that ReadMcuRow decodes: several of a component that is alone
  int64_t mcu_rows_to_go_ = 0;
  unsigned restarts_to_go_ = 0;  // MCUs until the next restart marker
  int next_restart_ = 0;
  Damage damage_;
  ScanBytes bytes_;
  ScanBits bits_;
  std::array<int, kMostGroups> last_places_{};  // of each group's blocks
  alignas(64) std::array<std::array<int16_t, kGroupValues>, kMostGroups> groups_{};
  alignas(64) std::array<std::array<int16_t, kGroupValues>, MAX_COMPS_IN_SCAN> quantization_{};
  alignas(64) std::array<std::array<uint8_t, DCTSIZE * kMaxBlocksPerGroup>, DCTSIZE> spare_{};
};

}  // namespace endcap
