// Devices, contexts and the driver API.

#include <cuda.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "memory.h"
#include "streams.h"

// A device's primary context. It is active once the runtime has used the device.
struct CUctx_st {
  int device;
  bool active = false;
};

namespace {

constexpr int kMaxDevices = 8;

CUctx_st& PrimaryContext(int device) {
  static auto* contexts = new std::array<CUctx_st, kMaxDevices>;
  CUctx_st& context = (*contexts)[static_cast<size_t>(device)];
  context.device = device;
  return context;
}

thread_local CUcontext current_context = nullptr;

bool Exists(int device) { return device >= 0 && device < endcap::emulation::DeviceCount(); }

}  // namespace

using namespace endcap::emulation;

int endcap::emulation::DeviceCount() {
  const char* text = std::getenv("ENDCAP_EMULATED_DEVICES");
  return text == nullptr ? 1 : std::min(std::atoi(text), kMaxDevices);
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = DeviceCount();
  return Note(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_context == nullptr ? 0 : current_context->device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const Guard guard(Lock());
  if (!Exists(device)) return Note(cudaErrorInvalidDevice);
  current_context = &PrimaryContext(device);
  current_context->active = true;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!Exists(device)) return Note(cudaErrorInvalidDevice);
  *properties = {"CUDA emulation on the CPU", 9, 0, 1, size_t{2} << 30, size_t{227} << 10, 1 << 20};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
  }
  return Note(cudaErrorInvalidValue);
}

CUresult cuDeviceGetCount(int* count) {
  *count = DeviceCount();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current_context;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current_context = context;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  const Guard guard(Lock());
  if (!Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = PrimaryContext(device).active ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const Guard guard(Lock());
  if (!Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  *context = &PrimaryContext(device);
  (*context)->active = true;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return Exists(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr memory) {
  const Guard guard(Lock());
  if (current_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const auto* address = reinterpret_cast<const void*>(memory);
  const cudaMemoryType type = GetMemoryType(address);
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(values[i]) = static_cast<unsigned>(type);
        break;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(values[i]) = 0;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) = type == cudaMemoryTypeHost ? 0 : GetDevice(address);
        break;
    }
  }
  return CUDA_SUCCESS;
}
CUresult cuCtxRecordEvent(CUcontext context, CUevent event) {
  const Guard guard(Lock());
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  event->recorded.clear();
  event->capture = 0;
  for (const Stream& stream : AllStreams()) {
    if (stream->captures) {
      (void)HarmCapture(cudaErrorStreamCaptureUnsupported);
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    event->recorded.push_back({stream, stream->enqueued});
  }
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const std::array<std::pair<const char*, void*>, 8> known = {{
      {"cuDeviceGetCount", reinterpret_cast<void*>(&cuDeviceGetCount)},
      {"cuCtxGetCurrent", reinterpret_cast<void*>(&cuCtxGetCurrent)},
      {"cuCtxSetCurrent", reinterpret_cast<void*>(&cuCtxSetCurrent)},
      {"cuDevicePrimaryCtxGetState", reinterpret_cast<void*>(&cuDevicePrimaryCtxGetState)},
      {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(&cuDevicePrimaryCtxRetain)},
      {"cuDevicePrimaryCtxRelease", reinterpret_cast<void*>(&cuDevicePrimaryCtxRelease)},
      {"cuPointerGetAttributes", reinterpret_cast<void*>(&cuPointerGetAttributes)},
      {"cuCtxRecordEvent", reinterpret_cast<void*>(&cuCtxRecordEvent)},
  }};
  *result = cudaDriverEntryPointSymbolNotFound;
  for (const auto& [name, address] : known) {
    if (std::strcmp(symbol, name) != 0) continue;
    *function = address;
    *result = cudaDriverEntryPointSuccess;
  }
  return cudaSuccess;
}
