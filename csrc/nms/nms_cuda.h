#pragma once

#include "nms/nms_launch.h"

namespace endcap {

// Enqueues the launch on `stream` (a cudaStream_t) and does not wait. What it launches depends on
// the count alone. Scratch, some 190 bytes a box, is taken and given back in the order of the
// stream. Throws kCuda, kOutOfMemory.
void LaunchNms(const NmsLaunch& launch, void* stream);

}  // namespace endcap
