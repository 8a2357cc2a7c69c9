// Errors, versions and the limits of a launch.

#include "cuda_emulation/runtime.h"

#include <cstdint>

#include "cuda_emulation/fibers.h"
#include "streams.h"

namespace {

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

namespace endcap::emulation {

cudaError_t Note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t CheckLaunch(dim3 grid, dim3 block, size_t shared_bytes) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool fits = threads >= 1 && threads <= uint64_t{kMaxThreads} && block.z <= 64 &&
                    grid.x >= 1 && grid.x <= 0x7FFFFFFFU && grid.y >= 1 && grid.y <= 65535 &&
                    grid.z >= 1 && grid.z <= 65535 && shared_bytes <= kMaxShared;
  if (!fits) return Note(cudaErrorInvalidConfiguration);
  return Refusal(Call::kSafe);
}

}  // namespace endcap::emulation

using namespace endcap::emulation;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    default:
      return "another CUDA error";
  }
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
