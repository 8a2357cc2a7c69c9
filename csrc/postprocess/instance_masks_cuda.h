#pragma once

#include <cuda_runtime.h>

#include "postprocess/detection_launch.h"

namespace endcap {

// Enqueues what makes the masks of rows that are written: a launch whose `masks` pack. An image
// with a logit that is not finite fails, as it does on the CPU. Throws kCuda.
void LaunchMasks(const DetectionLaunch& launch, cudaStream_t stream);

}  // namespace endcap
