#pragma once

#include <cuda_runtime.h>

#include "postprocess/cuda/detection_launch.h"

namespace endcap {

// The parts of LaunchDetection.

// Heads with angles: from the candidates that LaunchFilter has found to output rows. Enqueued on
// `stream`; throws kCuda.
void LaunchRotatedRows(const DetectionLaunch& launch, cudaStream_t stream);

// Enqueues what makes the masks of rows that are written, in the forms that are wanted, and
// mask_size: a launch whose `masks` are there. An image with a logit that is not finite fails, as
// it does on the CPU. Throws as LaunchPackedMasks.
void LaunchMasks(const DetectionLaunch& launch, cudaStream_t stream);

// Enqueues what writes DetectionImage::masks: a bit for each pixel. A logit that is not finite is
// noted in its image's CandidateState. Throws kCuda; kUnsupported for too many.
void LaunchPackedMasks(const DetectionLaunch& launch, cudaStream_t stream);

// Enqueues what writes the RLE of masks where DetectionImage::run_lengths asks for them:
// COCO's strings into RunLengthMemory::text. A logit that is not finite is noted in its image's
// CandidateState. Throws kCuda.
void LaunchRunLengths(const DetectionLaunch& launch, cudaStream_t stream);

}  // namespace endcap
