#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda/launch.h"
#include "cuda/memory.h"
#include "nms/greedy_cuda.h"

namespace endcap {

inline constexpr uint32_t kNmsChunk = 1024;

// How far suppression has come.
struct NmsProgress {
  unsigned long long kept;
  uint32_t chunk_kept;  // of the last chunk: so many of NmsArrays::chunk_kept count
  uint32_t has_nan;
};

struct NmsArrays {
  uint64_t* keys;         // [count]
  uint64_t* sorted_keys;  // [count]
  NmsBox* boxes;          // [count], best first
  uint32_t* overlaps;     // [chunks][32][kNmsChunk]: which boxes of a group of the chunk would
                          // suppress a box of the chunk; a bit for each
  uint8_t* suppressed;    // [count], best first
  NmsBox* chunk_kept;     // [kNmsChunk]
  NmsProgress* progress;  // [1]
};

// The arrays, in one piece of memory that is taken and given back in the order of a stream.
class NmsScratch {
 public:
  NmsScratch(int64_t count, size_t sort_bytes, cudaStream_t stream) : stream_(stream) {
    const auto boxes = static_cast<size_t>(count);
    const size_t chunks = (boxes + kNmsChunk - 1) / kNmsChunk;
    Lay(boxes, chunks, sort_bytes);
    int device = 0;
    Check(cudaGetDevice(&device), "cudaGetDevice");
    memory_ = reinterpret_cast<uintptr_t>(AllocateOnDevice(device, bytes_, stream));
    bytes_ = 0;
    Lay(boxes, chunks, sort_bytes);
  }
  ~NmsScratch() { (void)cudaFreeAsync(reinterpret_cast<void*>(memory_), stream_); }
  NmsScratch(const NmsScratch&) = delete;
  NmsScratch& operator=(const NmsScratch&) = delete;

  const NmsArrays& arrays() const { return arrays_; }
  void* sort() const { return sort_; }

 private:
  void Lay(size_t boxes, size_t chunks, size_t sort_bytes) {
    Place(arrays_.keys, boxes);
    Place(arrays_.sorted_keys, boxes);
    Place(arrays_.boxes, boxes);
    Place(arrays_.overlaps, chunks * 32 * kNmsChunk);
    Place(arrays_.suppressed, boxes);
    Place(arrays_.chunk_kept, size_t{kNmsChunk});
    Place(arrays_.progress, size_t{1});
    Place(sort_, sort_bytes);
  }
  template <typename T>
  void Place(T*& array, size_t count) {
    array = reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += (count * sizeof(T) + 255) / 256 * 256;
  }

  cudaStream_t stream_;
  uintptr_t memory_ = 0;
  size_t bytes_ = 0;
  NmsArrays arrays_ = {};
  uint8_t* sort_ = nullptr;
};

}  // namespace endcap
