#pragma once

#include "common/exponential.h"

namespace endcap {

// Sums of powers are taken in this many parts (element i goes to part i modulo kSumParts), and the
// upper half of the parts is added to the lower until one is left: an order that a block of threads
// can keep as well.
inline constexpr int kSumParts = 256;

}  // namespace endcap
