#include "common/score_order.h"
#include "cuda_runtime/launch.h"
#include "nms/cuda/key_sort.h"

namespace endcap {
namespace {

constexpr uint32_t kKeyThreads = 256;

__global__ void __launch_bounds__(kKeyThreads)
    MakeKeys(const float* scores, uint64_t* keys, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kKeyThreads + threadIdx.x;
  if (i < count) keys[i] = ScoreKey(scores[i], static_cast<uint32_t>(i));
}

}  // namespace

void MakeScoreKeys(const float* scores, uint64_t* keys, int64_t count, cudaStream_t stream) {
  const auto blocks = static_cast<uint32_t>((count + kKeyThreads - 1) / kKeyThreads);
  Launch(MakeKeys, blocks, kKeyThreads, 0, stream, scores, keys, count);
}

}  // namespace endcap

#if defined(ENDCAP_CUDA_EMULATED)

#include <algorithm>

namespace endcap {

void SortScoreKeys(const uint64_t* keys, uint64_t* sorted, int64_t count, void*, size_t,
                   cudaStream_t stream) {
  emulation::Enqueue(stream, [=] {
    std::copy_n(keys, count, sorted);
    std::stable_sort(sorted, sorted + count,
                     [](uint64_t a, uint64_t b) { return a >> 32 < b >> 32; });
  });
}

size_t SortScratchBytes(int64_t) { return 0; }

}  // namespace endcap

#else

#include <cub/device/device_radix_sort.cuh>

namespace endcap {
namespace {

// The radix sort is stable: the positions need no passes of their own.
constexpr int kFirstBit = 32;
constexpr int kEndBit = 64;

}  // namespace

void SortScoreKeys(const uint64_t* keys, uint64_t* sorted, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream) {
  Check(cub::DeviceRadixSort::SortKeys(scratch, scratch_bytes, keys, sorted, count, kFirstBit,
                                       kEndBit, stream),
        "cub::DeviceRadixSort::SortKeys");
}

size_t SortScratchBytes(int64_t count) {
  size_t bytes = 0;
  const uint64_t* keys = nullptr;
  uint64_t* sorted = nullptr;
  Check(cub::DeviceRadixSort::SortKeys(nullptr, bytes, keys, sorted, count, kFirstBit, kEndBit),
        "cub::DeviceRadixSort::SortKeys");
  return bytes;
}

}  // namespace endcap

#endif
