// The functions of CUDA's runtime that allocate and copy.

#include <cstring>
#include <map>
#include <set>

#include "memory.h"
#include "streams.h"

using namespace endcap::emulation;

namespace {

struct Pool {
  int device;
  std::map<cudaMemPoolAttr, int> attributes;
};

std::map<int, Pool>& Pools() {
  static auto* pools = new std::map<int, Pool>;  // one a device, as the library has
  return *pools;
}

// Allocated by a stream while it captured.
std::set<void*>& CapturedMemory() {
  static auto* memory = new std::set<void*>;
  return *memory;
}

Pool& GetPool(cudaMemPool_t pool) { return *reinterpret_cast<Pool*>(pool); }

cudaError_t Allocate(void** memory, size_t bytes, int device) {
  const Guard guard(Lock());
  KnowAll();  // memory that a stream has freed may be allocated again
  *memory = AllocateDevice(bytes, device);
  return Note(*memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

int CurrentDevice() {
  int device = 0;
  (void)cudaGetDevice(&device);
  return device;
}

}  // namespace

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  const Guard guard(Lock());
  const int device = properties->location.id;
  const bool fits = properties->allocType == cudaMemAllocationTypePinned &&
                    properties->location.type == cudaMemLocationTypeDevice && device >= 0 &&
                    device < DeviceCount();
  if (!fits) return Note(cudaErrorInvalidValue);
  Pool& made = Pools()[device] = {device, {}};
  *pool = reinterpret_cast<cudaMemPool_t>(&made);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const Guard guard(Lock());
  if (attribute != cudaMemPoolAttrReleaseThreshold) {
    GetPool(pool).attributes[attribute] = *static_cast<int*>(value);
  }
  return cudaSuccess;
}
int EndcapEmulatedPoolAttribute(int device, int attribute) {
  const Guard guard(Lock());
  return Pools().at(device).attributes.at(static_cast<cudaMemPoolAttr>(attribute));
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  ENDCAP_REFUSE(Call::kUnsafe);
  return Allocate(memory, bytes, CurrentDevice());
}
cudaError_t cudaFree(void* memory) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kUnsafe);
  RunAll();
  const bool known = memory == nullptr || ReleaseDevice(memory);
  return Note(known ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t) {
  ENDCAP_REFUSE(Call::kSafe);
  return Allocate(memory, bytes, CurrentDevice());
}
cudaError_t cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t handle) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kSafe);
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  const cudaError_t error = Allocate(memory, bytes, GetPool(pool).device);
  if (error == cudaSuccess && stream->captures) CapturedMemory().insert(*memory);
  return error;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t handle) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kSafe);
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  if (GetDevice(memory) < 0) return Note(cudaErrorInvalidValue);
  if (stream->captures && stream->capture_is_invalid) {
    return HarmCapture(cudaErrorStreamCaptureUnsupported);
  }
  // A graph frees nothing but its own allocations.
  if (CapturedMemory().erase(memory) == 0 && stream->captures) {
    return HarmCapture(cudaErrorInvalidValue);
  }
  Push(stream, [memory] { ReleaseDevice(memory); });
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kUnsafe);
  *memory = AllocatePinned(bytes);
  return Note(*memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return cudaMallocHost(memory, bytes);
}
cudaError_t cudaFreeHost(void* memory) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kUnsafe);
  RunAll();
  const bool known = memory == nullptr || ReleasePinned(memory);
  return Note(known ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t handle) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kSafe);
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  // Pageable memory too: CUDA may read and write it later, though most drivers do not.
  Push(stream, [to, from, bytes] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t handle) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kSafe);
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  Push(stream, [memory, value, bytes] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}
