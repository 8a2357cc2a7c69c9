#pragma once

#include <cuda_runtime.h>

#include "postprocess/detection_launch.h"

namespace endcap {

// yolov8_obb: from the candidates that LaunchFilter has found to output rows. Enqueued on `stream`;
// throws kCuda.
void LaunchRotatedRows(const DetectionLaunch& launch, cudaStream_t stream);

}  // namespace endcap
