
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include "cuda_runtime/cuda_api.h"
#include "cuda_runtime/device.h"
#include "cuda_runtime/launch.h"

namespace endcap {
namespace {

// What the pool keeps when the device is idle; more goes back to other users of the
// device. What is in use counts, buffers of contexts that live long too; a batch of 64 float
// tensors of 3 x 640 x 640 and its heads fit in the least.
constexpr uint64_t kMinKeptBytes = uint64_t{1} << 30;
constexpr uint64_t kKeptShare = 8;  // the divisor of the device's memory

cudaMemPool_t MakePool(int32_t device) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  Check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  CudaDeviceFacts facts{};
  DescribeDevice(device, &facts);
  uint64_t kept = std::max(kMinKeptBytes, static_cast<uint64_t>(facts.memory_bytes) / kKeptShare);
  Check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept),
        "cudaMemPoolSetAttribute");
  // An allocation never makes its stream wait for the work of another one, as the driver would let
  // it before it asks for more memory than there is: instances of a server would run one after the
  // other. AllocateOnDevice waits instead, once, where memory is really short.
  int allowed = 0;
  Check(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &allowed),
        "cudaMemPoolSetAttribute");
  return pool;
}

// Not the device's default pool: its settings are those of the whole process.
cudaMemPool_t GetPool(int32_t device) {
  // Never destroyed: threads may allocate while the process ends.
  static auto* mutex = new std::mutex;
  static auto* pools = new std::map<int32_t, cudaMemPool_t>;
  const std::lock_guard lock(*mutex);
  const auto found = pools->find(device);
  if (found != pools->end()) return found->second;
  return pools->emplace(device, MakePool(device)).first->second;
}

class ScopedEvent {
 public:
  ScopedEvent() : event_(CreateEvent()) {}
  ~ScopedEvent() { (void)cudaEventDestroy(get()); }
  ScopedEvent(const ScopedEvent&) = delete;
  ScopedEvent& operator=(const ScopedEvent&) = delete;
  cudaEvent_t get() const { return static_cast<cudaEvent_t>(event_); }

 private:
  void* event_;
};

// The stream of one device on which memory is freed that several streams have used. Thread-safe.
class ReleaseStream {
 public:
  ReleaseStream() : stream_(CreateStream()) {}

  bool Release(void* memory, std::span<void* const> streams, bool after_all) {
    const std::lock_guard lock(mutex_);  // a failed release must not order the next one
    if (std::ranges::any_of(streams, [](void* stream) { return CaptureId(stream) != 0; })) {
      return false;
    }
    const ScopedEvent event;
    for (void* const stream : streams) {
      RecordEvent(event.get(), stream);
      OrderAfterEvent(stream_, event.get());
    }
    if (after_all) {
      if (!RecordAllWork(event.get())) return false;
      OrderAfterEvent(stream_, event.get());
    }
    ReleaseOnDevice(memory, stream_);
    return true;
  }

  void Wait() const { WaitForStream(stream_); }

 private:
  std::mutex mutex_;
  void* stream_;
};

ReleaseStream& GetReleaseStream(int32_t device) {
  static auto* mutex = new std::mutex;
  static auto* streams = new std::map<int32_t, ReleaseStream>;
  const std::lock_guard lock(*mutex);
  return (*streams)[device];
}

// Pinned memory, of which idle blocks are kept for later calls.
class PinnedPool {
 public:
  void* Take(size_t bytes) {
    const size_t size = RoundUp(bytes);
    {
      const std::lock_guard lock(mutex_);
      // The one that was used last.
      const auto found = std::ranges::find(idle_.rbegin(), idle_.rend(), size, &Block::size);
      if (found != idle_.rend()) {
        void* const memory = found->memory;
        idle_bytes_ -= size;
        idle_.erase(std::next(found).base());
        return memory;
      }
    }
    void* memory = nullptr;
    cudaError_t error = cudaHostAlloc(&memory, size, cudaHostAllocPortable);
    if (error == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      FreeIdle(0);
      error = cudaHostAlloc(&memory, size, cudaHostAllocPortable);
    }
    Check(error, "cudaHostAlloc");
    const std::lock_guard lock(mutex_);
    sizes_[memory] = size;
    return memory;
  }

  void Return(void* memory) {
    {
      const std::lock_guard lock(mutex_);
      const size_t size = sizes_.at(memory);
      idle_.push_back({memory, size});
      idle_bytes_ += size;
    }
    FreeIdle(kMaxIdleBytes);
  }

 private:
  static constexpr size_t kMinBytes = size_t{64} << 10;
  static constexpr size_t kMaxIdleBytes = size_t{512} << 20;

  struct Block {
    void* memory;
    size_t size;
  };

  // Four sizes from one power of two to the next, so that blocks fit again.
  static size_t RoundUp(size_t bytes) {
    const size_t step = std::bit_floor(std::max(bytes, kMinBytes)) / 4;
    return (std::max(bytes, kMinBytes) + step - 1) / step * step;
  }

  // Frees the blocks that have been idle for longest, down to that many bytes.
  void FreeIdle(size_t most_bytes) {
    std::vector<void*> freed;
    {
      const std::lock_guard lock(mutex_);
      while (idle_bytes_ > most_bytes) {
        freed.push_back(idle_.front().memory);
        idle_bytes_ -= idle_.front().size;
        sizes_.erase(idle_.front().memory);
        idle_.pop_front();
      }
    }
    for (void* const memory : freed) Check(cudaFreeHost(memory), "cudaFreeHost");
  }

  std::mutex mutex_;
  std::list<Block> idle_;          // that which was used last at the end
  std::map<void*, size_t> sizes_;  // of all blocks
  size_t idle_bytes_ = 0;
};

PinnedPool& ThePinnedPool() {
  static auto* pool = new PinnedPool;  // never destroyed, see GetPool
  return *pool;
}

}  // namespace

void* AllocateOnDevice(int32_t device, size_t bytes, void* stream) {
  void* memory = nullptr;
  const auto allocate = [&] {
    return cudaMallocFromPoolAsync(&memory, bytes, GetPool(device),
                                   static_cast<cudaStream_t>(stream));
  };
  cudaError_t error = allocate();
  if (error == cudaErrorMemoryAllocation && CaptureId(stream) == 0) {
    (void)cudaGetLastError();
    GetReleaseStream(device).Wait();
    WaitForStream(stream);
    error = allocate();
  }
  Check(error, "cudaMallocFromPoolAsync");
  return memory;
}

void ReleaseOnDevice(void* memory, void* stream) {
  Check(cudaFreeAsync(memory, static_cast<cudaStream_t>(stream)), "cudaFreeAsync");
}

bool ReleaseAfter(int32_t device, void* memory, std::span<void* const> streams, bool after_all) {
  return GetReleaseStream(device).Release(memory, streams, after_all);
}

void* AllocatePinned(size_t bytes) { return ThePinnedPool().Take(bytes); }

void ReleasePinned(void* memory) { ThePinnedPool().Return(memory); }

void Copy(void* to, const void* from, size_t bytes, void* stream) {
  // Whether the driver stages pageable memory before it returns is its own affair: where the GPU
  // can read all of the host's memory it need not.
  const bool pageable =
      Locate(to).kind == CudaMemoryKind::kHost || Locate(from).kind == CudaMemoryKind::kHost;
  if (pageable && CaptureId(stream) != 0) {
    Fail(ErrorCode::kUnsupported,
         "the stream is being captured into a CUDA graph, which cannot keep a copy of CPU memory: "
         "copy the array to the GPU before the capture begins");
  }
  Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream)),
        "cudaMemcpyAsync");
  if (pageable) WaitForStream(stream);
}

void Fill(void* to, int32_t byte, size_t bytes, void* stream) {
  Check(cudaMemsetAsync(to, byte, bytes, static_cast<cudaStream_t>(stream)), "cudaMemsetAsync");
}

}  // namespace endcap
