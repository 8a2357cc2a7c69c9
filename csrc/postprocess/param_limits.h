#pragma once

#include <cstdint>

namespace endcap {

inline constexpr int kMaxInputSide = 65535;
inline constexpr int kMaxExtraValues = 10000;
inline constexpr int64_t kMaxOutputBytes = int64_t{2} << 30;  // of one output of one image
inline constexpr int64_t kMaxAnchors = int64_t{1} << 30;

}  // namespace endcap
