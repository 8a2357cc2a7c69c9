#include "cuda_runtime/device.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cstdio>

#include "cuda_runtime/launch.h"

namespace endcap {
namespace {

// The driver's functions that the runtime library has no counterpart of. The runtime finds them in
// libcuda.so, which this library is therefore not linked against.
struct Driver {
  decltype(&cuDeviceGetCount) get_count;
  decltype(&cuCtxGetCurrent) get_context;
  decltype(&cuCtxSetCurrent) set_context;
  decltype(&cuDevicePrimaryCtxGetState) get_state;
  decltype(&cuDevicePrimaryCtxRetain) retain;
  decltype(&cuDevicePrimaryCtxRelease) release;
  decltype(&cuPointerGetAttributes) get_attributes;
  decltype(&cuCtxRecordEvent) record_event;
};

template <typename Function>
Function Find(const char* name) {
  constexpr unsigned kSinceCuda = 12050;
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  Check(cudaGetDriverEntryPointByVersion(name, &address, kSinceCuda, cudaEnableDefault, &found),
        name);
  if (found != cudaDriverEntryPointSuccess) Fail(ErrorCode::kCuda, "the driver has no ", name);
  return reinterpret_cast<Function>(address);
}

const Driver& TheDriver() {
  static const Driver driver = {
      Find<decltype(&cuDeviceGetCount)>("cuDeviceGetCount"),
      Find<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent"),
      Find<decltype(&cuCtxSetCurrent)>("cuCtxSetCurrent"),
      Find<decltype(&cuDevicePrimaryCtxGetState)>("cuDevicePrimaryCtxGetState"),
      Find<decltype(&cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain"),
      Find<decltype(&cuDevicePrimaryCtxRelease)>("cuDevicePrimaryCtxRelease"),
      Find<decltype(&cuPointerGetAttributes)>("cuPointerGetAttributes"),
      Find<decltype(&cuCtxRecordEvent)>("cuCtxRecordEvent"),
  };
  return driver;
}

void CheckDriver(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) {
    // The driver's codes are the runtime's.
    if (IsUnrecoverable(static_cast<cudaError_t>(result))) cuda_needs_restart = true;
    Fail(ErrorCode::kCuda, call, " failed with code ", static_cast<int>(result));
  }
}

CUcontext CurrentContext() {
  CUcontext current = nullptr;
  CheckDriver(TheDriver().get_context(&current), "cuCtxGetCurrent");
  return current;
}

// Makes an active primary context current on a thread that has none, and takes it away again. Any
// one will do: addresses are unique in the process.
class AnyContext {
 public:
  AnyContext() {
    if (CurrentContext() != nullptr) return;
    int count = 0;
    CheckDriver(TheDriver().get_count(&count), "cuDeviceGetCount");
    for (CUdevice device = 0; device < count; ++device) {
      unsigned flags = 0;
      int active = 0;
      CheckDriver(TheDriver().get_state(device, &flags, &active), "cuDevicePrimaryCtxGetState");
      if (active == 0) continue;
      CUcontext context = nullptr;
      CheckDriver(TheDriver().retain(&context, device), "cuDevicePrimaryCtxRetain");
      retained_ = device;
      CheckDriver(TheDriver().set_context(context), "cuCtxSetCurrent");
      return;
    }
  }
  // NOLINTNEXTLINE(bugprone-exception-escape): the constructor has found the driver
  ~AnyContext() {
    if (retained_ < 0) return;
    (void)TheDriver().set_context(nullptr);
    (void)TheDriver().release(retained_);
  }
  AnyContext(const AnyContext&) = delete;
  AnyContext& operator=(const AnyContext&) = delete;

 private:
  CUdevice retained_ = -1;
};

}  // namespace

DeviceGuard::DeviceGuard(int32_t device) {
  before_ = CurrentContext();
  Check(cudaSetDevice(device), "cudaSetDevice");
  Check(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode");
}

// NOLINTNEXTLINE(bugprone-exception-escape): the constructor has found the driver once and for all
DeviceGuard::~DeviceGuard() {
  (void)cudaThreadExchangeStreamCaptureMode(&mode_);
  (void)TheDriver().set_context(static_cast<CUcontext>(before_));
}

CudaMemoryPlace Locate(const void* memory) {
  const AnyContext context;
  // Without a context the process has no device memory.
  if (CurrentContext() == nullptr) return {};
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

bool RecordAllWork(cudaEvent_t event) {
  const CUresult result = TheDriver().record_event(CurrentContext(), event);
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) return false;
  CheckDriver(result, "cuCtxRecordEvent");
  return true;
}

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
