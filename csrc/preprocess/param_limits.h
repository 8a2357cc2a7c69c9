#pragma once

#include <cstdint>

namespace endcap {

// What parameters may be at most.
inline constexpr int kMaxOutputSide = 16384;  // pixels; keeps every product of sizes within 32 bits
inline constexpr int kMaxSourceSide = 65535;  // what a JPEG can say
inline constexpr int64_t kMaxPixels = int64_t{kMaxSourceSide} * kMaxSourceSide;
inline constexpr int64_t kMaxBytes = int64_t{1} << 32;
inline constexpr int kMaxScans = 1000000;
inline constexpr int kMaxRois = 1000000;
inline constexpr int64_t kMaxMemory = int64_t{1} << 40;  // bytes
// scale, mean and std stay well inside float32, where they are used for pixels that are not
// quantized.
inline constexpr double kMaxNormalize = 1e9;
inline constexpr double kMinDivisor = 1e-9;

}  // namespace endcap
