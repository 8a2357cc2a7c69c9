#include "preprocess/tensor/normalize.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace endcap {

bool Split(const ChannelNormalize& normalize, SplitNormalize& split) {
  const double scale = normalize.scale / normalize.std;
  const double offset = normalize.mean == 0.0 ? 0.0 : -normalize.mean / normalize.std;
  // Multiples of `unit` below 2^24 units are float32 numbers, and so are their sums.
  const double largest = 255.0 * std::abs(scale) + std::abs(offset);
  const double unit = std::ldexp(1.0, std::ilogb(largest) + 1 - 23);
  const double coarse_scale = std::nearbyint(scale / unit) * unit;
  const double coarse_offset = std::nearbyint(offset / unit) * unit;
  split = {static_cast<float>(coarse_scale), static_cast<float>(scale - coarse_scale),
           static_cast<float>(coarse_offset), static_cast<float>(offset - coarse_offset)};
  for (int pixel = 0; pixel < 256; ++pixel) {
    const auto exact = static_cast<float>(normalize.Exact(pixel));
    const float applied = split.Apply(static_cast<float>(pixel));
    // As bits: 0 and -0 differ.
    if (std::bit_cast<uint32_t>(exact) != std::bit_cast<uint32_t>(applied)) return false;
  }
  return true;
}

}  // namespace endcap
