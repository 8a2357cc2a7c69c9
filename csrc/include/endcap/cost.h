#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "endcap/image_view.h"
#include "endcap/preprocess.h"

// The time that an image will take on a CPU, predicted from its header. It is for queues: no result
// depends on it.

namespace endcap {

// What the time of one image grows with.
enum class CostTerm : uint8_t {
  kImage,              // 1 for each image
  kSequentialBytes,    // of a JPEG
  kSequentialBlocks,   // whose codes are read
  kProgressiveBytes,   // of a JPEG with several scans
  kScannedBlocks,      // scans times blocks
  kTransformedBlocks,  // of a JPEG, at the DCT scale, in rows that the resize needs
  kPngBytes,           // of compressed pixels, as of a WebP
  kPngPixels,
  kWebpBytes,
  kWebpPixels,
  kGifPixels,
  kOtherPixels,      // of BMP and Y4M
  kConvertedPixels,  // of rows that the resize needs
  kTwoTaps,          // of the resize, by its arithmetic
  kPillowTaps,
  kFloatTaps,
  kTurnedPixels,    // of an image whose orientation swaps the axes, resized as its rows arrive
  kOrientedPixels,  // of one that is decoded whole and oriented before the resize
  kTensorElements,
  kTensorBytes,
};
inline constexpr size_t kCostTermCount = static_cast<size_t>(CostTerm::kTensorBytes) + 1;

using CostTerms = std::array<double, kCostTermCount>;

// Names for the program that fits the coefficients, such as "sequential_bytes".
std::string_view CostTermName(CostTerm term) noexcept;

// Returns the terms of an image, from its header. `regions`: the number of tensors that are cut out
// of it; 0: one of the whole image, or its tiles. Of a file that is refused for its header only
// kImage counts.
CostTerms GetCostTerms(const PreprocessParams& params, const ImageView& image,
                       int64_t regions = 0) noexcept;

// Returns the predicted milliseconds on one thread of the machine on which the coefficients were
// fitted (csrc/preprocess/cost_coefficients.h); on another machine a factor lies between.
// Thread-safe.
double PredictCostMs(const PreprocessParams& params, const ImageView& image,
                     int64_t regions = 0) noexcept;

}  // namespace endcap
