// The emulation itself: threads, barriers, warps, streams and memory behave as CUDA's.

#include <cuda_pipeline_primitives.h>
#include <gtest/gtest.h>

#include <csignal>
#include <numeric>
#include <vector>

#include "cuda_runtime/launch.h"

#if defined(__SANITIZE_ADDRESS__)
// The signal itself is what a test waits for.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "handle_segv=0";
}
#endif

namespace endcap {
namespace {

template <typename T>
struct OnDevice {
  T* data = nullptr;
  explicit OnDevice(size_t count) {
    Check(cudaMalloc(reinterpret_cast<void**>(&data), count * sizeof(T)), "cudaMalloc");
  }
  ~OnDevice() { cudaFree(data); }
  std::vector<T> Read(size_t count) const {
    std::vector<T> values(count);
    Check(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
    return values;
  }
};

// What stands in shared memory before copies are waited for, after all but one group, and at last.
__global__ void CopyInGroups(const int4* in, int4* out) {
  ENDCAP_DYNAMIC_SHARED(bytes);
  auto* shared = reinterpret_cast<int4*>(bytes) + 2 * threadIdx.x;
  shared[0] = shared[1] = make_int4(-1, -1, -1, -1);
  __pipeline_memcpy_async(shared, in + 2 * threadIdx.x, 16);
  __pipeline_commit();
  __pipeline_memcpy_async(shared + 1, in + 2 * threadIdx.x + 1, 16, 4);
  __pipeline_commit();
  int4* to = out + 6 * threadIdx.x;
  for (int step = 0; step < 3; ++step) {
    if (step > 0) __pipeline_wait_prior(step == 1 ? 1 : 0);
    to[2 * step] = shared[0];
    to[2 * step + 1] = shared[1];
  }
}

TEST(CudaEmulation, CopiesToSharedMemoryAreDoneWhenTheyAreWaitedFor) {
  constexpr unsigned kThreads = 40;
  const OnDevice<int4> in(2 * kThreads);
  std::vector<int4> numbers(2 * kThreads);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto n = static_cast<int>(4 * i);
    numbers[i] = make_int4(n, n + 1, n + 2, n + 3);
  }
  Check(cudaMemcpy(in.data, numbers.data(), numbers.size() * sizeof(int4), cudaMemcpyDefault),
        "cudaMemcpy");
  const OnDevice<int4> out(6 * kThreads);
  Launch(CopyInGroups, 1, kThreads, 32 * kThreads, nullptr, in.data, out.data);
  const auto seen = out.Read(6 * kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    const auto first = static_cast<int>(8 * t);
    EXPECT_EQ(seen[6 * t].x, -1);
    EXPECT_EQ(seen[6 * t + 2].w, first + 3);
    EXPECT_EQ(seen[6 * t + 3].x, -1);
    EXPECT_EQ(seen[6 * t + 4].x, first);
    EXPECT_EQ(seen[6 * t + 5].z, first + 6);
    EXPECT_EQ(seen[6 * t + 5].w, 0);  // not read
  }
}

__global__ void Count(int* total, int limit) {
  if (static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) >= limit) return;
  atomicAdd(total, 1);
  __syncthreads();  // of those that are left
}

TEST(CudaEmulation, ThreadsMayEndBeforeABarrier) {
  const OnDevice<int> total(1);
  Check(cudaMemsetAsync(total.data, 0, sizeof(int), nullptr), "cudaMemsetAsync");
  Launch(Count, 4, 64, 0, nullptr, total.data, 200);
  EXPECT_EQ(total.Read(1)[0], 200);
}

#if !defined(ENDCAP_CUDA_RACES)  // which would rightly report what the host does here

TEST(CudaEmulation, WorkIsDoneWhenTheHostWaits) {
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  Check(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), "create");
  Check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), "create");
  cudaEvent_t event = nullptr;
  Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create");
  int* pinned = nullptr;
  Check(cudaMallocHost(reinterpret_cast<void**>(&pinned), 2 * sizeof(int)), "cudaMallocHost");
  const OnDevice<int> memory(1);
  pinned[0] = 1;
  pinned[1] = 0;
  Check(cudaMemcpyAsync(memory.data, pinned, sizeof(int), cudaMemcpyDefault, first), "copy");
  Check(cudaEventRecord(event, first), "record");
  Check(cudaStreamWaitEvent(second, event), "order");
  Check(cudaMemcpyAsync(pinned + 1, memory.data, sizeof(int), cudaMemcpyDefault, second), "copy");
  pinned[0] = 2;  // too early: the copy has not been made
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(pinned[1], 0);
  Check(cudaStreamSynchronize(second), "wait");
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(pinned[1], 2);
  Check(cudaFreeHost(pinned), "free");
  Check(cudaEventDestroy(event), "destroy");
  Check(cudaStreamDestroy(second), "destroy");
  Check(cudaStreamDestroy(first), "destroy");
}

#endif

TEST(CudaEmulationDeathTest, TheHostCannotReadDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const OnDevice<int> memory(1);
        const volatile int* address = memory.data;
        std::exit(*address == 0 ? 0 : 1);
      },
      testing::KilledBySignal(SIGSEGV), "");
}

#if defined(__SANITIZE_ADDRESS__)

__global__ void WriteBehind(char* memory, size_t bytes) { memory[bytes] = 1; }

__global__ void WriteBehindShared(char* memory) {
  ENDCAP_DYNAMIC_SHARED(bytes);
  bytes[threadIdx.x + 1] = 1;
  memory[threadIdx.x] = static_cast<char>(bytes[threadIdx.x]);
}

template <typename Kernel, typename... Args>
void ExpectPoison(Kernel kernel, size_t shared_bytes, const Args&... args) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const OnDevice<char> memory(5);
        Launch(kernel, 1, 5, shared_bytes, nullptr, memory.data, args...);
        Check(cudaStreamSynchronize(nullptr), "wait");
      },
      "use-after-poison");
}

TEST(CudaEmulationDeathTest, NothingLiesBehindTheLastByte) {
  ExpectPoison(WriteBehind, 0, 5);
  ExpectPoison(WriteBehindShared, 5);
}

TEST(CudaEmulationDeathTest, ReleasedMemoryIsGone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const OnDevice<char> neighbour(5);
        const OnDevice<char> memory(5);
        char* address = memory.data;
        cudaFree(address);
        Launch(WriteBehind, 1, 1, 0, nullptr, address, 0);
        Check(cudaStreamSynchronize(nullptr), "wait");
      },
      "use-after-poison");
}

#endif

TEST(CudaEmulation, RefusesWhatCudaRefuses) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, size_t{1} << 50), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_THROW(Launch(Count, 1, 2048, 0, nullptr, nullptr, 0), Error);
  EXPECT_EQ(cudaSetDevice(64), cudaErrorInvalidDevice);
}

}  // namespace
}  // namespace endcap
