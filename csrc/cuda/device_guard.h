#pragma once

#include <cstdint>

#include "cuda/cuda_api.h"

namespace endcap {

// Makes `device` the calling thread's device, and at the end whatever was before. Throws kCuda.
//
// Restored is the driver's context: cudaSetDevice on the way back would start a device that the
// process never used, with hundreds of megabytes of its memory.
class DeviceGuard {
 public:
  explicit DeviceGuard(int32_t device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  void* before_ = nullptr;
};

struct MemoryPlace {
  CudaMemoryKind kind = CudaMemoryKind::kHost;
  int32_t device = -1;  // -1: memory that CUDA does not know
};

// Where `memory` lies. Managed memory counts as the device's. Starts no device. Throws kCuda.
MemoryPlace Locate(const void* memory);

}  // namespace endcap
