#pragma once

#include <cstdint>

#include "cuda/launch.h"
#include "preprocess/fused_filter.cuh"
#include "preprocess/fused_launch.h"
#include "preprocess/fused_source.cuh"
#include "preprocess/fused_span.h"

// The way from the source's rows to sums.

namespace endcap {

// The source's rows that make one row of the tensor, as the upright image has them.
struct RowTaps {
  int first;
  const int32_t* weight;
  int taps;
  int samples;
  bool flip;

  // Where row `tap` is stored, along the rows' axis.
  __device__ int Stored(int tap) const {
    const int sample = ClampSample(first + tap, samples);
    return flip ? samples - 1 - sample : sample;
  }
};

// Reads rows [begin, begin + count) of `rows` into shared memory, each `pitch` pixels after the
// other.
template <typename Filter, FusedWay kWay>
__device__ void StageRows(const FusedLaunch& launch, const FusedImage& image, const RowTaps& rows,
                          int begin, int count, const FusedSpan& span, int pitch,
                          uint32_t* shared) {
  const bool gray = launch.channels == 1;
  const int step = image.swap_axes ? 1 : kFusedGroup;
  const int threads = static_cast<int>(blockDim.x) * step;
  int row = 0;
  for (int i = static_cast<int>(threadIdx.x) * step;; i += threads) {
    for (; row < count && i >= pitch; i -= pitch) ++row;
    if (row >= count) return;
    if (i >= span.count || Filter::IsZero(rows.weight[begin + row])) continue;
    uint32_t* to = shared + row * pitch + i;
    const int across = rows.Stored(begin + row);
    if (image.swap_axes) {
      *to = FetchPixel<kWay>(image, gray, across, span.base + i);
    } else {
      StageGroup<kWay>(image, gray, span.base + i, across, to);
    }
  }
}

// Adds up the rows of a visible row of the tensor: through shared memory, or, kInPlace, each thread
// reads the pixels that it needs, for images too wide for that.
template <typename Filter, FusedWay kWay>
__device__ void SumRows(const FusedLaunch& launch, const FusedImage& image, const RowTaps& rows,
                        const FusedSpan& span, const QuadColumns& columns, bool visible,
                        typename Filter::Sum (&sums)[kQuad][kColors]) {
  const Filter filter(columns);
  if constexpr (kWay != FusedWay::kInPlace) {
    ENDCAP_DYNAMIC_SHARED(bytes);
    auto* shared = reinterpret_cast<uint32_t*>(bytes);
    const int pitch = span.pitch();
    const int staged = min(min(launch.staged_pixels / pitch, kFusedMaxStagedRows), rows.taps);
#pragma unroll 1
    for (int begin = 0; begin < rows.taps; begin += staged) {
      const int count = min(staged, rows.taps - begin);
      if (begin != 0) __syncthreads();
      StageRows<Filter, kWay>(launch, image, rows, begin, count, span, pitch, shared);
      __syncthreads();
#pragma unroll 1
      for (int k = 0; visible && k < count; ++k) {
        const int32_t weight = rows.weight[begin + k];
        if (Filter::IsZero(weight)) continue;
        const uint32_t* row = shared + k * pitch;
        filter.AddRow([row](int position) { return row[position]; }, weight, sums);
      }
    }
  } else {
    const bool gray = launch.channels == 1;
#pragma unroll 1
    for (int k = 0; visible && k < rows.taps; ++k) {
      if (Filter::IsZero(rows.weight[k])) continue;
      const int across = rows.Stored(k);
      const auto read = [&](int position) {
        const int along = span.base + position;
        return FetchPixel<kWay>(image, gray, image.swap_axes ? across : along,
                                image.swap_axes ? along : across);
      };
      filter.AddRow(read, rows.weight[k], sums);
    }
  }
}

}  // namespace endcap
