#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/cuda_api.h"

namespace endcap {

// Devices of libendcap_cuda.so: which there are, which one is current, and where memory lies.

// Makes `device` the calling thread's device, and restores what was current before. Throws kCuda.
//
// The driver's context is restored: cudaSetDevice would initialise a device that the process never
// used, which takes hundreds of megabytes of its memory.
class DeviceGuard {
 public:
  explicit DeviceGuard(int32_t device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  void* before_ = nullptr;
};

// Lets the calling thread make any call while another thread captures a CUDA graph. In the default
// mode calls that might depend on the captured work (allocation of pinned memory, waiting, event
// queries) fail during a capture of mode cudaStreamCaptureModeGlobal, torch's, and invalidate it.
// The library's calls concern its own memory, streams and events, so that they are safe. Throws
// kCuda.
class RelaxedCaptureMode {
 public:
  RelaxedCaptureMode();
  ~RelaxedCaptureMode();
  RelaxedCaptureMode(const RelaxedCaptureMode&) = delete;
  RelaxedCaptureMode& operator=(const RelaxedCaptureMode&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

struct MemoryPlace {
  CudaMemoryKind kind = CudaMemoryKind::kHost;
  int32_t device = -1;  // -1: memory that CUDA does not know
};

// Finds where `memory` lies. Managed memory counts as device memory. Needs no current device and
// initialises none. Throws kCuda.
MemoryPlace Locate(const void* memory);

// Records in `event` all work enqueued so far on all streams of the current device. Returns false
// if a stream of the device captures a graph; the driver invalidates that capture. Throws kCuda.
bool RecordAllWork(cudaEvent_t event);

// These initialise no device. All throw kCuda.

// The CUDA versions of driver and runtime, 1000 * major + 10 * minor; `driver` is 0 without a
// driver.
void ReadCudaVersions(int32_t* driver, int32_t* runtime);

int32_t CountDevices();

void DescribeDevice(int32_t device, CudaDeviceFacts* facts);

}  // namespace endcap
