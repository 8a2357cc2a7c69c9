#pragma once

#include "nms/rotated_nms_launch.h"

namespace endcap {

// Enqueues the launch on `stream` (a cudaStream_t) and does not wait. What it launches depends on
// the count alone. Scratch is taken and given back in the order of the stream: some 100 bytes a
// box, and more for those that suppress, see RotatedScratchBytes. Throws kCuda, kOutOfMemory.
void LaunchRotatedNms(const RotatedNmsLaunch& launch, void* stream);

}  // namespace endcap
