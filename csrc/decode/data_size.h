#pragma once

#include <cstdint>
#include <span>

namespace endcap {

// 8x8 blocks of all components of a JPEG; 0 where its header is damaged. Allocates nothing.
int64_t CountJpegBlocks(std::span<const uint8_t> file) noexcept;

// Bytes of compressed pixels that are decoded: without texts, profiles, further frames and what
// follows the last row. Throw as ReadHeader for a damaged header.
int64_t CountPngBytes(std::span<const uint8_t> file);
int64_t CountWebpBytes(std::span<const uint8_t> file);

}  // namespace endcap
