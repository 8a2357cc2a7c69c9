#pragma once

#include <cuda_runtime.h>

#include "postprocess/detection_launch.h"

namespace endcap {

// Enqueues what writes the run lengths of masks where DetectionImage::run_lengths asks for them:
// COCO's strings into RunLengthMemory::text. A logit that is not finite is noted in its image's
// CandidateState. Throws kCuda.
void LaunchRunLengths(const DetectionLaunch& launch, cudaStream_t stream);

}  // namespace endcap
