// The functions of CUDA's runtime that allocate and copy.

#include <cstring>

#include "memory.h"
#include "streams.h"

using namespace endcap::emulation;

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  const bool fits = properties->allocType == cudaMemAllocationTypePinned &&
                    properties->location.type == cudaMemLocationTypeDevice &&
                    properties->location.id >= 0 && properties->location.id < DeviceCount();
  *pool = nullptr;
  return Note(fits ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const Guard guard(Lock());
  KnowAll();  // memory that a stream has given back may be given again
  *memory = AllocateDevice(bytes);
  return Note(*memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  const Guard guard(Lock());
  RunAll();
  const bool known = memory == nullptr || ReleaseDevice(memory);
  return Note(known ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t) {
  return cudaMalloc(memory, bytes);
}
cudaError_t cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t,
                                    cudaStream_t stream) {
  return cudaMallocAsync(memory, bytes, stream);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t handle) {
  const Guard guard(Lock());
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  if (TypeOf(memory) != cudaMemoryTypeDevice) return Note(cudaErrorInvalidValue);
  Push(stream, [memory] { ReleaseDevice(memory); });
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  const Guard guard(Lock());
  *memory = AllocatePinned(bytes);
  return Note(*memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return cudaMallocHost(memory, bytes);
}
cudaError_t cudaFreeHost(void* memory) {
  const Guard guard(Lock());
  RunAll();
  const bool known = memory == nullptr || ReleasePinned(memory);
  return Note(known ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t handle) {
  const Guard guard(Lock());
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
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  Push(stream, [memory, value, bytes] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const Guard guard(Lock());
  const cudaMemoryType type = TypeOf(memory);
  void* address = const_cast<void*>(memory);
  *attributes = {type, type == cudaMemoryTypeUnregistered ? -2 : 0,
                 type == cudaMemoryTypeUnregistered ? nullptr : address,
                 type == cudaMemoryTypeDevice ? nullptr : address};
  return cudaSuccess;
}
