#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace endcap {

// The ScoreKeys of scores [count], asynchronously on `stream`; count: at least 1. Throws kCuda.
void MakeScoreKeys(const float* scores, uint64_t* keys, int64_t count, cudaStream_t stream);

// Sorts ScoreKeys whose positions ascend, asynchronously on `stream`: by score, equal scores stay
// in their order. Throws kCuda.
void SortScoreKeys(const uint64_t* keys, uint64_t* sorted, int64_t count, void* scratch,
                   size_t scratch_bytes, cudaStream_t stream);

// Bytes of scratch that it needs.
size_t SortScratchBytes(int64_t count);

}  // namespace endcap
