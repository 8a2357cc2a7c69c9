#pragma once

#include <cstdint>

#include "common/color_conversion.h"
#include "preprocess/cuda/fused_span.h"
#include "preprocess/resize/resize_arithmetic.h"

// What one thread does with the rows that a block reads: it sums up four neighbouring columns of
// the tensor. A filter is one arithmetic; `read(position)` gives a pixel of the row, whose colors
// GetColor says.
//
//   Start:  a sum before the first row
//   IsZero: whether a row of that weight may be left out
//   AddRow: a row, filtered horizontally, times its weight
//   Finish: a sum -> a pixel's number

namespace endcap {

inline constexpr int kQuad = kFusedQuad;
inline constexpr int kColors = 3;

// The sums of four columns.
template <typename Filter>
using QuadSums = typename Filter::Sum[kQuad][kColors];

template <typename Filter>
__device__ void Clear(QuadSums<Filter>& sums) {
#pragma unroll
  for (auto& sum : sums) {
    for (auto& color : sum) color = Filter::Start();
  }
}

__device__ inline int32_t Pick(const int4& four, int index) {
  return index == 0 ? four.x : (index == 1 ? four.y : (index == 2 ? four.z : four.w));
}

// The taps of four columns, and the positions of their samples in a row that is read.
struct QuadColumns {
  int4 first;
  const int32_t* weight;  // of tap 0; those of tap k are k * weight_stride further
  int weight_stride;
  int taps;
  int last;    // the last sample there is
  int origin;  // sample s has position origin + step * s
  int step;

  __device__ int Position(int sample) const { return origin + step * min(max(sample, 0), last); }
  __device__ int4 Weights(int tap) const {
    return *reinterpret_cast<const int4*>(weight + tap * weight_stride);
  }

  // Calls use(column, pixel, weight) for each tap of each column, by taps. Only at an image's sides
  // are there taps beyond it.
  template <typename Read, typename Use>
  __device__ void ForEachTap(const Read& read, const Use& use) const {
    const int least = min(min(first.x, first.y), min(first.z, first.w));
    const int most = max(max(first.x, first.y), max(first.z, first.w));
    if (least >= 0 && most + taps - 1 <= last) {
      int positions[kQuad];
#pragma unroll
      for (int i = 0; i < kQuad; ++i) positions[i] = origin + step * Pick(first, i);
      for (int k = 0; k < taps; ++k) {
        const int4 weights = Weights(k);
#pragma unroll
        for (int i = 0; i < kQuad; ++i) {
          use(i, read(positions[i]), Pick(weights, i));
          positions[i] += step;
        }
      }
    } else {
      for (int k = 0; k < taps; ++k) {
        const int4 weights = Weights(k);
#pragma unroll
        for (int i = 0; i < kQuad; ++i)
          use(i, read(Position(Pick(first, i) + k)), Pick(weights, i));
      }
    }
  }
};

// As fused_source.cuh packs it, or as stored in a row.
__device__ inline int32_t GetColor(uint32_t pixel, int color) {
  return static_cast<int32_t>(pixel >> (8 * color) & 0xFFU);
}
__device__ inline int32_t GetColor(const Rgb8& pixel, int color) {
  return color == 0 ? pixel.r : (color == 1 ? pixel.g : pixel.b);
}

class Opencv8Filter {
 public:
  using Sum = int32_t;
  using Number = int32_t;

  __device__ explicit Opencv8Filter(const QuadColumns& columns) {
    const int4 left_weights = columns.Weights(0);
    const int4 right_weights = columns.Weights(1);
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const int first = Pick(columns.first, i);
      positions_[i] = Pair(columns.Position(first), columns.Position(first + 1));
      weights_[i] = Pair(Pick(left_weights, i), Pick(right_weights, i));
    }
  }

  __device__ static Sum Start() { return 0; }
  __device__ static bool IsZero(int32_t weight) { return weight == 0; }

  template <typename Read>
  __device__ void AddRow(const Read& read, int32_t weight, Sum (&sums)[kQuad][kColors]) const {
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const auto left = read(Low(positions_[i]));
      const auto right = read(High(positions_[i]));
#pragma unroll
      for (int c = 0; c < kColors; ++c) {
        const int32_t horizontal = OpencvHorizontal(static_cast<uint8_t>(GetColor(left, c)),
                                                    static_cast<uint8_t>(GetColor(right, c)),
                                                    Low(weights_[i]), High(weights_[i]));
        sums[i][c] += OpencvVerticalTerm(horizontal, weight);
      }
    }
  }

  __device__ static Number Finish(Sum sum, float /*sum_scale*/) { return OpencvVerticalRound(sum); }

 private:
  // Positions are below 2^16, the longest side of an image, and so are bytes in shared memory;
  // weights are at most 2^11: in pairs they leave registers to those that read rows.
  __device__ static uint32_t Pair(int low, int high) {
    return static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 16;
  }
  __device__ static int Low(uint32_t pair) { return static_cast<int>(pair & 0xFFFFU); }
  __device__ static int High(uint32_t pair) { return static_cast<int>(pair >> 16); }

  uint32_t positions_[kQuad];
  uint32_t weights_[kQuad];
};

class Pillow8Filter {
 public:
  using Sum = int32_t;
  using Number = int32_t;

  __device__ explicit Pillow8Filter(const QuadColumns& columns) : columns_(columns) {}

  __device__ static Sum Start() { return kPillowHalf; }
  __device__ static bool IsZero(int32_t weight) { return weight == 0; }

  template <typename Read>
  __device__ void AddRow(const Read& read, int32_t weight, Sum (&sums)[kQuad][kColors]) const {
    int32_t horizontal[kQuad][kColors];
#pragma unroll
    for (auto& column : horizontal) {
      for (int32_t& sum : column) sum = kPillowHalf;
    }
    columns_.ForEachTap(read, [&](int i, const auto& pixel, int32_t tap) {
#pragma unroll
      for (int c = 0; c < kColors; ++c) horizontal[i][c] += GetColor(pixel, c) * tap;
    });
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
#pragma unroll
      for (int c = 0; c < kColors; ++c) sums[i][c] += PillowRound(horizontal[i][c]) * weight;
    }
  }

  __device__ static Number Finish(Sum sum, float /*sum_scale*/) { return PillowRound(sum); }

 private:
  QuadColumns columns_;
};

// float32, sums in the order of the taps. Leaving out a weight of 0 changes nothing: no sum is -0.
class FloatFilter {
 public:
  using Sum = float;
  using Number = float;

  __device__ explicit FloatFilter(const QuadColumns& columns) : columns_(columns) {}

  __device__ static Sum Start() { return 0.0F; }
  __device__ static bool IsZero(int32_t weight) { return __int_as_float(weight) == 0.0F; }

  template <typename Read>
  __device__ void AddRow(const Read& read, int32_t weight, Sum (&sums)[kQuad][kColors]) const {
    float horizontal[kQuad][kColors] = {};
    columns_.ForEachTap(read, [&](int i, const auto& pixel, int32_t tap) {
#pragma unroll
      for (int c = 0; c < kColors; ++c) {
        horizontal[i][c] += static_cast<float>(GetColor(pixel, c)) * __int_as_float(tap);
      }
    });
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
#pragma unroll
      for (int c = 0; c < kColors; ++c) sums[i][c] += horizontal[i][c] * __int_as_float(weight);
    }
  }

  __device__ static Number Finish(Sum sum, float /*sum_scale*/) { return sum; }

 private:
  QuadColumns columns_;
};

class OpencvFloat8Filter : public FloatFilter {
 public:
  using Number = int32_t;
  using FloatFilter::FloatFilter;
  __device__ static Number Finish(Sum sum, float sum_scale) { return OpencvRound(sum * sum_scale); }
};

}  // namespace endcap
