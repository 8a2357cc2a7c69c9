// Built with ThreadSanitizer, the emulation reports two threads using the same memory with nothing
// that orders them, and only that.

#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda_runtime/launch.h"

namespace endcap {
namespace {

constexpr int kRaceFound = 66;  // ThreadSanitizer's exit code

enum class Between { kNothing, kBarrier, kWarpBarrier, kVote };

// Each thread reads what another one of its warp wrote.
template <Between kBetween>
__global__ void ReadNeighbour(int* out) {
  __shared__ int values[64];
  const unsigned t = threadIdx.x;
  values[t] = static_cast<int>(t);
  if constexpr (kBetween == Between::kBarrier) __syncthreads();
  if constexpr (kBetween == Between::kWarpBarrier) __syncwarp();
  if constexpr (kBetween == Between::kVote) (void)__ballot_sync(0xFFFFFFFFU, 1);
  out[blockIdx.x * 64 + t] = values[t ^ 1U];
}

// The second half of a block reads what the first wrote.
template <Between kBetween>
__global__ void ReadOtherWarp(int* out) {
  ENDCAP_DYNAMIC_SHARED(bytes);
  auto* values = reinterpret_cast<int*>(bytes);
  const unsigned t = threadIdx.x;
  if (t < 32) values[t] = static_cast<int>(t);
  if constexpr (kBetween == Between::kBarrier) __syncthreads();
  if constexpr (kBetween == Between::kWarpBarrier) __syncwarp();
  if (t >= 32) out[blockIdx.x * 64 + t] = values[t - 32];
}

// A barrier orders what was before it and nothing that comes after it.
__global__ void WriteAfterBarrier(int* out) {
  __shared__ int value;
  const unsigned t = threadIdx.x;
  if (t == 0) value = 1;
  __syncthreads();
  out[blockIdx.x * 64 + t] = value;
  if (t == 63) value = 2;
}

__global__ void WriteOneWord(int* out, bool atomically) {
  if (threadIdx.x != blockIdx.x % 2) return;
  if (atomically) {
    atomicAdd(out, 1);
  } else {
    *out += 1;
  }
}

template <typename Kernel, typename... Args>
void LaunchAndWait(Kernel kernel, unsigned blocks, unsigned threads, const Args&... args) {
  int* out = nullptr;
  Check(cudaMalloc(reinterpret_cast<void**>(&out), size_t{blocks} * 64 * sizeof(int)), "malloc");
  Check(cudaMemsetAsync(out, 0, size_t{blocks} * 64 * sizeof(int), nullptr), "memset");
  Launch(kernel, blocks, threads, 64 * sizeof(int), nullptr, out, args...);
  Check(cudaStreamSynchronize(nullptr), "wait");
  cudaFree(out);
}

template <typename Kernel, typename... Args>
void ExpectBlocksEnd(int code, Kernel kernel, unsigned blocks, unsigned threads,
                     const Args&... args) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        LaunchAndWait(kernel, blocks, threads, args...);
        std::exit(0);
      },
      testing::ExitedWithCode(code), code == 0 ? "" : "data race");
}

template <typename Kernel, typename... Args>
void ExpectEnd(int code, Kernel kernel, unsigned blocks, const Args&... args) {
  ExpectBlocksEnd(code, kernel, blocks, 64, args...);
}

TEST(RacesDeathTest, WithinAWarp) {
  ExpectEnd(kRaceFound, ReadNeighbour<Between::kNothing>, 1);
  ExpectEnd(kRaceFound, ReadNeighbour<Between::kVote>, 1);
  ExpectEnd(0, ReadNeighbour<Between::kWarpBarrier>, 3);
  ExpectEnd(0, ReadNeighbour<Between::kBarrier>, 3);
}

TEST(RacesDeathTest, BetweenWarps) {
  ExpectEnd(kRaceFound, ReadOtherWarp<Between::kNothing>, 1);
  ExpectEnd(kRaceFound, ReadOtherWarp<Between::kWarpBarrier>, 1);
  ExpectEnd(0, ReadOtherWarp<Between::kBarrier>, 3);
}

TEST(RacesDeathTest, AfterABarrier) { ExpectEnd(kRaceFound, WriteAfterBarrier, 1); }

TEST(RacesDeathTest, BetweenBlocks) {
  ExpectEnd(kRaceFound, WriteOneWord, 2, false);
  ExpectEnd(0, WriteOneWord, 5, true);
}

__global__ void WriteOnce(int* out) { *out = 1; }

enum class Then { kNothing, kWait, kEvent };

// One stream's work and then another's, or the host's, in the same memory.
void UseInTwoStreams(Then then) {
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) {
    Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create");
  }
  cudaEvent_t event = nullptr;
  Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create");
  int* memory = nullptr;
  Check(cudaMalloc(reinterpret_cast<void**>(&memory), sizeof(int)), "malloc");
  Launch(WriteOnce, 1, 1, 0, streams[0], memory);
  if (then == Then::kWait) Check(cudaStreamSynchronize(streams[0]), "wait");
  if (then == Then::kEvent) {
    Check(cudaEventRecord(event, streams[0]), "record");
    Check(cudaStreamWaitEvent(streams[1], event), "order");
  }
  Launch(WriteOnce, 1, 1, 0, streams[1], memory);
  Check(cudaDeviceSynchronize(), "wait");
}

void WriteWhatIsCopied(Then then) {
  int* pinned = nullptr;
  int* memory = nullptr;
  Check(cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof(int)), "pinned");
  Check(cudaMalloc(reinterpret_cast<void**>(&memory), sizeof(int)), "malloc");
  pinned[0] = 1;
  Check(cudaMemcpyAsync(memory, pinned, sizeof(int), cudaMemcpyDefault, nullptr), "copy");
  if (then == Then::kWait) Check(cudaStreamSynchronize(nullptr), "wait");
  pinned[0] = 2;
  Check(cudaDeviceSynchronize(), "wait");
}

void ExpectEnd(int code, void (*use)(Then), Then then) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT((use(then), std::exit(0)), testing::ExitedWithCode(code),
              code == 0 ? "" : "data race");
}

TEST(RacesDeathTest, BetweenStreams) {
  ExpectEnd(kRaceFound, UseInTwoStreams, Then::kNothing);
  ExpectEnd(0, UseInTwoStreams, Then::kWait);
  ExpectEnd(0, UseInTwoStreams, Then::kEvent);
}

TEST(RacesDeathTest, OfTheHost) {
  ExpectEnd(kRaceFound, WriteWhatIsCopied, Then::kNothing);
  ExpectEnd(0, WriteWhatIsCopied, Then::kWait);
}

}  // namespace
}  // namespace endcap
