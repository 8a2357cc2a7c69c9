#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/cuda_api.h"
#include "decode/nvjpeg_decoder.h"
#include "nms/nms_launch.h"
#include "nms/rotated_nms_launch.h"
#include "postprocess/detection_launch.h"
#include "preprocess/cuda/fused_launch.h"

namespace endcap {

// The sizes of what goes through the table, in one number: another one is another build's.
constexpr uint32_t LaunchLayout() {
  uint32_t layout = kCudaApiVersion;
  for (const size_t bytes :
       {sizeof(CudaApi), sizeof(CudaDeviceFacts), sizeof(FusedLaunch), sizeof(FusedTuning),
        sizeof(FusedImage), sizeof(DetectionLaunch), sizeof(NmsLaunch), sizeof(RotatedNmsLaunch),
        sizeof(NvjpegDecodeBatch), sizeof(NvjpegImage), sizeof(NvjpegFacts)}) {
    layout = layout * 31 + static_cast<uint32_t>(bytes);
  }
  return layout;
}

}  // namespace endcap
