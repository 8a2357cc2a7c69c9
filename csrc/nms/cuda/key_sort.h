#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda_runtime/device.h"
#include "cuda_runtime/launch.h"

namespace endcap {

// The ScoreKeys of scores [count], asynchronously on `stream`; count: at least 1. Throws kCuda.
void MakeScoreKeys(const float* scores, uint64_t* keys, int64_t count, cudaStream_t stream);

// Sorts ScoreKeys whose positions ascend, asynchronously on `stream`: by score, equal scores stay
// in their order. Throws kCuda.
void SortScoreKeys(const uint64_t* keys, uint64_t* sorted, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream);

// Bytes of scratch that it needs.
size_t SortScratchBytes(int64_t count);

// Arrays side by side in one stream-ordered allocation of device memory, freed on the same stream
// by the destructor. Throws kCuda, kOutOfMemory.
class StreamScratch {
 public:
  // lay(scratch) calls Place for each array. It is called twice and must place the same arrays.
  template <typename Lay>
  StreamScratch(cudaStream_t stream, const Lay& lay) : stream_(stream) {
    lay(*this);
    int device = 0;
    Check(cudaGetDevice(&device), "cudaGetDevice");
    memory_ = reinterpret_cast<uintptr_t>(AllocateOnDevice(device, bytes_, stream));
    bytes_ = 0;
    lay(*this);
  }
  ~StreamScratch() { (void)cudaFreeAsync(reinterpret_cast<void*>(memory_), stream_); }
  StreamScratch(const StreamScratch&) = delete;
  StreamScratch& operator=(const StreamScratch&) = delete;

  template <typename T>
  void Place(T*& array, size_t count) {
    array = reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += (count * sizeof(T) + 255) / 256 * 256;
  }

 private:
  cudaStream_t stream_;
  uintptr_t memory_ = 0;
  size_t bytes_ = 0;
};

}  // namespace endcap
