#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "cuda_runtime/launch.h"
#include "preprocess/cuda/fused_filter.cuh"
#include "preprocess/cuda/fused_launch.h"
#include "preprocess/cuda/fused_rows.cuh"
#include "preprocess/cuda/fused_span.h"

// Sums up rows of interleaved pixels. The rows go to shared memory as they are, 16
// bytes at a time and all of a thread's at once: from compute capability 8.0 on they pass by the
// registers, and while the rows of one step are summed up, those of the next are loaded.

namespace endcap {

// The source's rows of one step: some of those that make one row of the tensor. Those from
// device memory's `from` are as far beyond a multiple of 16 bytes in shared memory as there.
template <typename Filter>
struct CopiedRows {
  uint8_t* row[kFusedMaxStagedRows];         // in shared memory
  int32_t weight[kFusedMaxStagedRows] = {};  // one that is zero has no row
  int skip[kFusedMaxStagedRows] = {};

  __device__ CopiedRows(uint8_t* shared, int row_bytes) {
    for (int k = 0; k < kFusedMaxStagedRows; ++k) row[k] = shared + k * row_bytes;
  }

  // Begins to copy taps [begin, begin + count) of visible row `v`. WaitForCopies, then a barrier,
  // end it.
  __device__ void Begin(const FusedLaunch& launch, const FusedImage& image, const FusedSpan& span,
                        int v, int begin, int count) {
    const RowTaps rows(launch, image, v);
    constexpr int kPixel = StagedSampleBytes(FusedVariant::kCopied);
    const uint8_t* first = image.planes[0] + kPixel * span.base;
#pragma unroll
    for (int k = 0; k < kFusedMaxStagedRows; ++k) {
      weight[k] = k < count ? rows.weight[begin + k] : 0;
      if (Filter::IsZero(weight[k])) continue;
      const uint8_t* from = first + image.row_stride_bytes[0] * rows.Stored(begin + k);
      skip[k] = static_cast<int>(reinterpret_cast<uintptr_t>(from) % kFusedCopyBytes);
      CopyRow(from, skip[k], kPixel * span.count, row[k]);
    }
  }

  __device__ void Add(Filter& filter, QuadSums<Filter>& sums) const {
#pragma unroll
    for (int k = 0; k < kFusedMaxStagedRows; ++k) {
      if (!Filter::IsZero(weight[k])) filter.AddRow(CopiedRow{row[k], skip[k]}, weight[k], sums);
    }
  }

 private:
  // All threads of the block together; byte by byte where a row's ends are not whole 16 bytes, so
  // that nothing beside it is read.
  __device__ static void CopyRow(const uint8_t* from, int skip, int bytes, uint8_t* to) {
    const auto thread = static_cast<int>(threadIdx.x);
    const int whole = (kFusedCopyBytes - skip) % kFusedCopyBytes;  // the first of whole ones
    const int rest = max(bytes - (skip + bytes) % kFusedCopyBytes, whole);
#pragma unroll 1
    for (int at = whole + thread * kFusedCopyBytes; at < rest;
         at += static_cast<int>(blockDim.x) * kFusedCopyBytes) {
      __pipeline_memcpy_async(to + skip + at, from + at, kFusedCopyBytes);
    }
    if (whole == 0 && rest == bytes) return;
    if (thread < min(whole, bytes)) to[skip + thread] = __ldg(from + thread);
    if (rest + thread < bytes) to[skip + rest + thread] = __ldg(from + rest + thread);
  }
};

__device__ inline void WaitForCopies() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
}

// Calls take(v, sums) for each visible row [first, end) of the tensor, where the thread is
// `visible`; one that is not helps to read rows. All threads of a block together, once.
template <typename Filter, typename Take>
__device__ void SumCopiedRows(const FusedLaunch& launch, const FusedImage& image, int first,
                              int end, const FusedSpan& span, bool visible, Filter& filter,
                              const Take& take) {
  ENDCAP_DYNAMIC_SHARED(shared);
  const int row_bytes = launch.copied_row_bytes;
  const int taps = image.rows.taps;
  const int fit = launch.staged_bytes / (FusedBuffers(FusedVariant::kCopied) * row_bytes);
  const int staged = min(min(fit, kFusedMaxStagedRows), taps);
  CopiedRows<Filter> now(shared, row_bytes);
  CopiedRows<Filter> next(shared + staged * row_bytes, row_bytes);
  now.Begin(launch, image, span, first, 0, staged);
  QuadSums<Filter> sums;
  Clear(filter, sums);
#pragma unroll 1
  for (int v = first, begin = 0; v < end;) {
    const bool last = begin + staged >= taps;  // of the steps of this row of the tensor
    const int next_v = last ? v + 1 : v;
    begin = last ? 0 : begin + staged;
    // Besides, all threads are through with the step before, whose memory the next one takes.
    WaitForCopies();
    __syncthreads();
    if (next_v < end) {
      next.Begin(launch, image, span, next_v, begin, min(staged, taps - begin));
    }
    if (visible) {
      now.Add(filter, sums);
      if (last) {
        take(v, sums);
        Clear(filter, sums);
      }
    }
    v = next_v;
    const CopiedRows<Filter> summed = now;
    now = next;
    next = summed;
  }
}

}  // namespace endcap
