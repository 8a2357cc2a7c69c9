#pragma once

#include <cstdint>

#include "cuda/cuda_api.h"

namespace endcap {

// What there is, asked without starting a device. All throw kCuda.

// driver: 0 where there is none.
void ReadCudaVersions(int32_t* driver, int32_t* runtime);

int32_t CountDevices();

void DescribeDevice(int32_t device, CudaDeviceFacts* facts);

}  // namespace endcap
