#include "cuda/device_guard.h"

#include <cuda_runtime.h>

#include "cuda/launch.h"

// csrc/cuda/device_guard.cc by the functions of the runtime: there is no driver below the
// emulation.

namespace endcap {
namespace {

int CurrentDevice() {
  int device = 0;
  Check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

}  // namespace

DeviceGuard::DeviceGuard(int32_t device)
    : before_(reinterpret_cast<void*>(intptr_t{CurrentDevice()})) {
  Check(cudaSetDevice(device), "cudaSetDevice");
}

DeviceGuard::~DeviceGuard() {
  (void)cudaSetDevice(static_cast<int>(reinterpret_cast<intptr_t>(before_)));
}

MemoryPlace Locate(const void* memory) {
  cudaPointerAttributes attributes{};
  Check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  if (attributes.type == cudaMemoryTypeDevice) return {CudaMemoryKind::kDevice, attributes.device};
  if (attributes.type == cudaMemoryTypeHost) return {CudaMemoryKind::kPinned, attributes.device};
  return {};
}

}  // namespace endcap
