#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// Sums over the threads of a block.

namespace endcap {

__device__ inline uint32_t InclusiveWarpSum(uint32_t value) {
  for (uint32_t step = 1; step < 32; step *= 2) {
    const uint32_t before = __shfl_up_sync(0xFFFFFFFFU, value, step);
    if (threadIdx.x % 32 >= step) value += before;
  }
  return value;
}

struct BlockSum {
  uint32_t before;  // of the threads before this one
  uint32_t total;
};

// kWarps: of the block, at most 32. warp_sums: shared memory, free again after the call.
template <uint32_t kWarps>
__device__ BlockSum SumInBlock(uint32_t value, uint32_t (&warp_sums)[kWarps]) {
  const uint32_t warp = threadIdx.x / 32;
  const uint32_t in_warp = InclusiveWarpSum(value);
  if (threadIdx.x % 32 == 31) warp_sums[warp] = in_warp;
  __syncthreads();
  BlockSum sum = {in_warp - value, 0};
  for (uint32_t i = 0; i < kWarps; ++i) {
    if (i < warp) sum.before += warp_sums[i];
    sum.total += warp_sums[i];
  }
  __syncthreads();
  return sum;
}

}  // namespace endcap
