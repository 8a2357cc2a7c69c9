#include "cuda/device_guard.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cstddef>

#include "cuda/launch.h"

namespace endcap {
namespace {

// The driver's functions that the runtime library has no counterpart of. The runtime finds them in
// libcuda.so, which this library is therefore not linked against.
struct Driver {
  decltype(&cuCtxGetCurrent) get_context;
  decltype(&cuCtxSetCurrent) set_context;
  decltype(&cuPointerGetAttributes) get_attributes;
};

template <typename Function>
Function Find(const char* name) {
  constexpr unsigned kSinceCuda = 12000;
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  Check(cudaGetDriverEntryPointByVersion(name, &address, kSinceCuda, cudaEnableDefault, &found),
        name);
  if (found != cudaDriverEntryPointSuccess) Fail(ErrorCode::kCuda, "the driver has no ", name);
  return reinterpret_cast<Function>(address);
}

const Driver& TheDriver() {
  static const Driver driver = {
      Find<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent"),
      Find<decltype(&cuCtxSetCurrent)>("cuCtxSetCurrent"),
      Find<decltype(&cuPointerGetAttributes)>("cuPointerGetAttributes"),
  };
  return driver;
}

void CheckDriver(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) {
    Fail(ErrorCode::kCuda, call, " failed with code ", static_cast<int>(result));
  }
}

}  // namespace

DeviceGuard::DeviceGuard(int32_t device) {
  CUcontext before = nullptr;
  CheckDriver(TheDriver().get_context(&before), "cuCtxGetCurrent");
  before_ = before;
  Check(cudaSetDevice(device), "cudaSetDevice");
}

// NOLINTNEXTLINE(bugprone-exception-escape): the constructor has found the driver once and for all
DeviceGuard::~DeviceGuard() { (void)TheDriver().set_context(static_cast<CUcontext>(before_)); }

MemoryPlace Locate(const void* memory) {
  unsigned type = 0;  // a CUmemorytype, or 0 for memory that CUDA does not know
  unsigned managed = 0;
  int device = -1;
  std::array attributes = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                           CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 3> values = {&type, &managed, &device};
  CheckDriver(TheDriver().get_attributes(attributes.size(), attributes.data(), values.data(),
                                         std::bit_cast<CUdeviceptr>(memory)),
              "cuPointerGetAttributes");
  if (type == CU_MEMORYTYPE_DEVICE || managed != 0) return {CudaMemoryKind::kDevice, device};
  if (type == CU_MEMORYTYPE_HOST) return {CudaMemoryKind::kPinned, device};
  return {};
}

}  // namespace endcap
