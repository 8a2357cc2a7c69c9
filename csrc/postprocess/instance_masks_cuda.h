#pragma once

#include <cuda_runtime.h>

#include "postprocess/detection_launch.h"

namespace endcap {

// Enqueues what makes the masks of rows that are written, in the forms that are wanted, and
// mask_size: a launch whose `masks` are there. An image with a logit that is not finite fails, as
// it does on the CPU. Throws as LaunchPackedMasks.
void LaunchMasks(const DetectionLaunch& launch, cudaStream_t stream);

}  // namespace endcap
