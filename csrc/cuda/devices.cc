#include "cuda/devices.h"

#include <cuda_runtime.h>

#include <cstdio>

#include "cuda/launch.h"

namespace endcap {

void ReadCudaVersions(int32_t* driver, int32_t* runtime) {
  Check(cudaDriverGetVersion(driver), "cudaDriverGetVersion");
  Check(cudaRuntimeGetVersion(runtime), "cudaRuntimeGetVersion");
}

int32_t CountDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice) {
    (void)cudaGetLastError();
    return 0;
  }
  Check(error, "cudaGetDeviceCount");
  return count;
}

void DescribeDevice(int32_t device, CudaDeviceFacts* facts) {
  cudaDeviceProp properties{};
  Check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::snprintf(facts->name, sizeof facts->name, "%s", properties.name);
  facts->compute_major = properties.major;
  facts->compute_minor = properties.minor;
  facts->multiprocessors = properties.multiProcessorCount;
  facts->memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
}

}  // namespace endcap
