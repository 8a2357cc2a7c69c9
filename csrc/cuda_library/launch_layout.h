#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_library/kernel_table.h"
#include "cuda_runtime/cuda_api.h"
#include "decode/planes.h"
#include "nms/cuda/launch.h"
#include "postprocess/cuda/detection_launch.h"
#include "preprocess/cuda/fused_launch.h"

namespace endcap {

// A hash of the sizes of all structs that the core and libendcap_cuda.so exchange. Files of two
// builds that differ in one of these structs do not load each other.
constexpr uint32_t ComputeLaunchLayout() {
  uint32_t layout = kCudaApiVersion;
  for (const size_t bytes :
       {sizeof(CudaApi), sizeof(KernelTable), sizeof(CudaDeviceFacts), sizeof(FusedLaunch),
        sizeof(FusedImage), sizeof(DetectionLaunch), sizeof(NmsLaunch), sizeof(RotatedNmsLaunch),
        sizeof(NvjpegDecodeBatch), sizeof(NvjpegImage), sizeof(NvjpegFacts)}) {
    layout = layout * 31 + static_cast<uint32_t>(bytes);
  }
  return layout;
}

}  // namespace endcap
