#pragma once

#include "postprocess/detection_launch.h"

namespace endcap {

// Enqueues the launch on `stream` (a cudaStream_t) and does not wait. Throws kCuda.
void LaunchDetection(const DetectionLaunch& launch, void* stream);

}  // namespace endcap
