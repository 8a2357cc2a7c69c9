#pragma once

#include "nms/rotated_nms_launch.h"

namespace endcap {

// Enqueues the launch on `stream` (a cudaStream_t) and does not wait. What it launches depends on
// the count and the method, not on the data. Scratch is taken and given back in the order of the
// stream: some 24 bytes a box, and 60 to 110 for each that may suppress. Throws kCuda,
// kOutOfMemory.
void LaunchRotatedNms(const RotatedNmsLaunch& launch, void* stream);

}  // namespace endcap
