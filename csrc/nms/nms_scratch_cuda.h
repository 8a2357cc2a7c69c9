#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda/stream_scratch.h"
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

// Of `count` boxes; see StreamScratch.
inline void LayNmsArrays(NmsArrays& arrays, size_t count, StreamScratch& scratch) {
  const size_t chunks = (count + kNmsChunk - 1) / kNmsChunk;
  scratch.Place(arrays.keys, count);
  scratch.Place(arrays.sorted_keys, count);
  scratch.Place(arrays.boxes, count);
  scratch.Place(arrays.overlaps, chunks * 32 * kNmsChunk);
  scratch.Place(arrays.suppressed, count);
  scratch.Place(arrays.chunk_kept, size_t{kNmsChunk});
  scratch.Place(arrays.progress, size_t{1});
}

}  // namespace endcap
