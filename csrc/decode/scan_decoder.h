#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

// Whether a scan has what DecodeScan needs: valid tables, and components that fit an MCU.
bool CanDecodeScan(const ScanHeader& scan, const JpegTables& tables,
                   const JpegMarkers& markers) noexcept;

// Decodes one scan of a file of several; data: what follows its header. Throws kCorruptImage for
// damage, std::bad_alloc.
void DecodeScan(std::span<const uint8_t> data, const ScanHeader& scan, const JpegTables& tables,
                const JpegFrame& frame, std::span<CoefficientPlane> planes);

}  // namespace endcap
