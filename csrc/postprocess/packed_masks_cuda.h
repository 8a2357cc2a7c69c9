#pragma once

#include <cuda_runtime.h>

#include "postprocess/detection_launch.h"

namespace endcap {

// Enqueues what writes DetectionImage::masks: a bit for each pixel. A logit that is not finite is
// noted in its image's CandidateState. Throws kCuda; kUnsupported for too many.
void LaunchPackedMasks(const DetectionLaunch& launch, cudaStream_t stream);

}  // namespace endcap
