#include "cuda/memory.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "cuda/cuda_api.h"
#include "cuda/device_guard.h"
#include "cuda/devices.h"
#include "cuda/launch.h"
#include "cuda/streams.h"

namespace endcap {
namespace {

// What the pool keeps when the device has come to rest; more goes back to other users of the
// device. What is in use counts, buffers of contexts that live long too; a batch of 64 float
// tensors of 3 x 640 x 640 and its heads fit in the least.
constexpr uint64_t kLeastKeptBytes = uint64_t{1} << 30;
constexpr uint64_t kKeptShare = 8;  // one part in so many of the device's memory

uint64_t KeptBytes(int32_t device) {
  CudaDeviceFacts facts{};
  DescribeDevice(device, &facts);
  return std::max(kLeastKeptBytes, static_cast<uint64_t>(facts.memory_bytes) / kKeptShare);
}

cudaMemPool_t MakePool(int32_t device) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  Check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  uint64_t kept = KeptBytes(device);
  Check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept),
        "cudaMemPoolSetAttribute");
  return pool;
}

// Not the device's default pool: its settings are those of the whole process.
cudaMemPool_t PoolOf(int32_t device) {
  // Never destroyed: threads may allocate while the process ends.
  static auto* mutex = new std::mutex;
  static auto* pools = new std::map<int32_t, cudaMemPool_t>;
  const std::lock_guard lock(*mutex);
  const auto found = pools->find(device);
  if (found != pools->end()) return found->second;
  return pools->emplace(device, MakePool(device)).first->second;
}

}  // namespace

void* AllocateOnDevice(int32_t device, size_t bytes, void* stream) {
  void* memory = nullptr;
  Check(cudaMallocFromPoolAsync(&memory, bytes, PoolOf(device), static_cast<cudaStream_t>(stream)),
        "cudaMallocFromPoolAsync");
  return memory;
}

void ReleaseOnDevice(void* memory, void* stream) {
  Check(cudaFreeAsync(memory, static_cast<cudaStream_t>(stream)), "cudaFreeAsync");
}

void* AllocatePinned(size_t bytes) {
  void* memory = nullptr;
  Check(cudaMallocHost(&memory, bytes), "cudaMallocHost");
  return memory;
}

void ReleasePinned(void* memory) { Check(cudaFreeHost(memory), "cudaFreeHost"); }

void Copy(void* to, const void* from, size_t bytes, void* stream) {
  Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream)),
        "cudaMemcpyAsync");
  // Whether the driver stages pageable memory before it returns is its own affair: where the GPU
  // can read all of the host's memory it need not.
  if (Locate(to).kind == CudaMemoryKind::kHost || Locate(from).kind == CudaMemoryKind::kHost) {
    WaitForStream(stream);
  }
}

void Fill(void* to, int32_t byte, size_t bytes, void* stream) {
  Check(cudaMemsetAsync(to, byte, bytes, static_cast<cudaStream_t>(stream)), "cudaMemsetAsync");
}

}  // namespace endcap
