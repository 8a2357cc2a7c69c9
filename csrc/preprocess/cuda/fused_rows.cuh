#pragma once

#include <cstdint>

#include "cuda_runtime/launch.h"
#include "preprocess/cuda/fused_filter.cuh"
#include "preprocess/cuda/fused_launch.h"
#include "preprocess/cuda/fused_source.cuh"
#include "preprocess/cuda/fused_span.h"

// Sums up the source's rows, of all sources but those in fused_copy.cuh: one row of
// the tensor after the other.

namespace endcap {

// The source's rows that make one visible row of the tensor, as the oriented image has them.
struct RowTaps {
  int first;
  const int32_t* weight;
  int taps;
  int samples;
  bool flip;

  __device__ RowTaps(const FusedLaunch& launch, const FusedImage& image, int v)
      : first(launch.tables[image.rows.first + v]),
        weight(launch.tables + image.rows.weight + v * image.rows.taps),
        taps(image.rows.taps),
        samples(image.rows.samples),
        flip(image.swap_axes ? image.from_right : image.from_bottom) {}

  // Where row `tap` is stored, along the rows' axis.
  __device__ int Stored(int tap) const {
    const int sample = ClampSample(first + tap, samples);
    return flip ? samples - 1 - sample : sample;
  }
};

// Reads rows [begin, begin + count) of `rows` into shared memory, each `row_bytes` after the other.
template <typename Filter>
__device__ void StageRows(const FusedLaunch& launch, const FusedImage& image, const RowTaps& rows,
                          int begin, int count, const FusedSpan& span, int row_bytes,
                          uint8_t* shared) {
  const bool gray = launch.channels == 1;
  const int pitch = row_bytes / StagedSampleBytes(FusedVariant::kStaged);
  const int step = image.swap_axes ? 1 : kFusedGroup;
  const int threads = static_cast<int>(blockDim.x) * step;
  int row = 0;
  for (int i = static_cast<int>(threadIdx.x) * step;; i += threads) {
    for (; row < count && i >= pitch; i -= pitch) ++row;
    if (row >= count) return;
    if (i >= span.count || Filter::IsZero(rows.weight[begin + row])) continue;
    auto* to = reinterpret_cast<uint32_t*>(shared) + row * pitch + i;
    const int across = rows.Stored(begin + row);
    if (image.swap_axes) {
      *to = FetchPixel(image, gray, across, span.base + i);
    } else {
      StageGroup(image, gray, span.base + i, across, to);
    }
  }
}

// Adds up the rows of visible row `v` of the tensor through shared memory. A thread that is not
// `visible` helps to read them.
template <typename Filter>
__device__ void SumStagedRows(const FusedLaunch& launch, const FusedImage& image, int v,
                              const FusedSpan& span, bool visible, Filter& filter,
                              QuadSums<Filter>& sums) {
  ENDCAP_DYNAMIC_SHARED(shared);
  const RowTaps rows(launch, image, v);
  const int row_bytes = StagedRowBytes(FusedVariant::kStaged, span);
  const int staged = min(min(launch.staged_bytes / row_bytes, kFusedMaxStagedRows), rows.taps);
#pragma unroll 1
  for (int begin = 0; begin < rows.taps; begin += staged) {
    const int count = min(staged, rows.taps - begin);
    if (begin != 0) __syncthreads();
    StageRows<Filter>(launch, image, rows, begin, count, span, row_bytes, shared);
    __syncthreads();
#pragma unroll 1
    for (int k = 0; visible && k < count; ++k) {
      const int32_t weight = rows.weight[begin + k];
      if (Filter::IsZero(weight)) continue;
      const uint8_t* row = shared + k * row_bytes;
      filter.AddRow([row](int at) { return *reinterpret_cast<const uint32_t*>(row + at); }, weight,
                    sums);
    }
  }
}

// The same of an image whose rows are too wide for shared memory: each thread reads the pixels that
// it needs.
template <typename Filter>
__device__ void SumRowsInPlace(const FusedLaunch& launch, const FusedImage& image, int v,
                               const FusedSpan& span, Filter& filter, QuadSums<Filter>& sums) {
  const RowTaps rows(launch, image, v);
  const bool gray = launch.channels == 1;
#pragma unroll 1
  for (int k = 0; k < rows.taps; ++k) {
    if (Filter::IsZero(rows.weight[k])) continue;
    const int across = rows.Stored(k);
    const auto read = [&](int position) {
      const int along = span.base + position;
      return FetchPixel(image, gray, image.swap_axes ? across : along,
                        image.swap_axes ? along : across);
    };
    filter.AddRow(read, rows.weight[k], sums);
  }
}

}  // namespace endcap
