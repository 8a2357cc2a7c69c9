#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

#include "cuda_runtime/block_sum.h"

// Reads many keys in ascending order, a chunk at a time, so that keys which suppression does not
// reach are never sorted. Every thread of the block must call every function.

namespace endcap {

inline constexpr uint32_t kChunk = 1024;

// kSize keys, a power of 2 that is also the number of the block's threads.
template <uint32_t kSize>
struct KeyChunk {
  static constexpr uint32_t kBuckets = 2 * kSize;
  static constexpr int kBucketBits = std::bit_width(kSize);

  uint64_t keys[kSize];  // ascending
  union {                // the sort's, and the buckets of all else
    uint64_t runs[kSize];
    uint32_t buckets[kBuckets];
  };
  uint32_t warp_sums[kSize / 32];
  uint32_t size;
};

// Whole buckets that hold at most kSize keys together, from the first on.
struct BucketCut {
  uint32_t buckets;
  uint32_t keys;
};

template <uint32_t kSize>
__device__ BucketCut CutBuckets(KeyChunk<kSize>& chunk) {
  const uint32_t first = chunk.buckets[2 * threadIdx.x];
  const uint32_t second = chunk.buckets[2 * threadIdx.x + 1];
  if (threadIdx.x == 0) chunk.size = 0;
  const uint32_t sum_first = SumInBlock(first + second, chunk.warp_sums).before + first;
  const uint32_t sum = sum_first + second;
  if (sum_first <= kSize) atomicMax(&chunk.size, sum_first);
  if (sum <= kSize) atomicMax(&chunk.size, sum);
  const int whole = __syncthreads_count(sum_first <= kSize) + __syncthreads_count(sum <= kSize);
  return {static_cast<uint32_t>(whole), chunk.size};
}

// The last key of the next chunk: at least one of the keys that are not below `from`, and at most
// kSize of them, lie up to there. There are more than kSize of them.
template <uint32_t kSize>
__device__ uint64_t FindChunkEnd(const uint64_t* keys, uint32_t count, uint64_t from,
                                 KeyChunk<kSize>& chunk) {
  uint64_t low = from;
  uint64_t high = ~uint64_t{0};
  for (;;) {
    const int bits = 64 - __clzll(static_cast<long long>(high - low));
    const int shift = bits > chunk.kBucketBits ? bits - chunk.kBucketBits : 0;
    chunk.buckets[threadIdx.x] = 0;
    chunk.buckets[threadIdx.x + kSize] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += kSize) {
      const uint64_t key = keys[i];
      if (key >= low && key <= high) atomicAdd(&chunk.buckets[(key - low) >> shift], 1U);
    }
    __syncthreads();
    const BucketCut cut = CutBuckets(chunk);
    const uint64_t next = low + (static_cast<uint64_t>(cut.buckets) << shift);
    __syncthreads();  // all threads have read the buckets
    if (cut.keys > 0) return next - 1;
    // The first bucket that holds any holds too many. Keys differ: a bucket of one key never does.
    low = next;
    const uint64_t width = (uint64_t{1} << shift) - 1;
    if (high - low > width) high = low + width;
  }
}

// Sorts the keys of a warp's lanes, bitonically. All lanes come.
__device__ inline uint64_t SortInWarp(uint64_t key) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (uint32_t run = 2; run <= 32; run *= 2) {
#pragma unroll
    for (uint32_t step = run / 2; step > 0; step /= 2) {
      const uint64_t other = __shfl_xor_sync(0xFFFFFFFFU, key, static_cast<int>(step));
      const bool takes_lower = ((lane & step) == 0) == ((lane & run) == 0);
      if ((other < key) == takes_lower) key = other;
    }
  }
  return key;
}

// How many of 32 ascending keys are below `key`.
__device__ inline uint32_t CountBelow(const uint64_t* keys, uint64_t key) {
  uint32_t below = 0;
#pragma unroll
  for (uint32_t step = 16; step > 0; step /= 2) {
    if (keys[step - 1] >= key) continue;
    keys += step;
    below += step;
  }
  return below + (*keys < key ? 1 : 0);
}

// Sorts chunk.keys[0, size): each warp a run of 32, then the place of a key is the number of lower
// ones in all runs. These are filled up with keys that come last, to whole groups of four runs.
template <uint32_t kSize>
__device__ void SortChunk(KeyChunk<kSize>& chunk, uint32_t size) {
  constexpr uint32_t kFourRuns = 4 * 32;
  static_assert(kSize % kFourRuns == 0);
  const uint32_t t = threadIdx.x;
  uint64_t key = t < size ? chunk.keys[t] : ~uint64_t{0};
  if (t / kFourRuns * kFourRuns < size) {
    key = SortInWarp(key);
    chunk.runs[t] = key;
  }
  __syncthreads();
  if (t < size) {
    uint32_t place = 0;
    for (uint32_t first = 0; first < size; first += kFourRuns) {
#pragma unroll
      for (uint32_t run = 0; run < kFourRuns; run += 32) {
        place += CountBelow(chunk.runs + first + run, key);
      }
    }
    chunk.keys[place] = key;
  }
  __syncthreads();
}

// Copies the lowest of the keys that are not below `from` into chunk.keys, ascending, and sets
// `from` behind them. `left`: how many of keys[0, count) are not below `from`. Returns how many
// were copied: at least one, and all of them if they are at most kSize.
template <uint32_t kSize>
__device__ uint32_t NextChunk(const uint64_t* keys, uint32_t count, uint32_t left, uint64_t& from,
                              KeyChunk<kSize>& chunk) {
  const uint64_t last = left > kSize ? FindChunkEnd(keys, count, from, chunk) : ~uint64_t{0};
  if (threadIdx.x == 0) chunk.size = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < count; i += kSize) {
    const uint64_t key = keys[i];
    if (key >= from && key <= last) chunk.keys[atomicAdd(&chunk.size, 1U)] = key;
  }
  __syncthreads();
  const uint32_t size = chunk.size;
  SortChunk(chunk, size);
  from = last + 1;
  return size;
}

}  // namespace endcap
