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
__device__ void Clear(Filter& filter, typename Filter::Sum (&sums)[kQuad][kColors]) {
#pragma unroll
  for (auto& sum : sums) {
    for (auto& color : sum) color = filter.Start();
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

// A row in shared memory as it is stored, from 4-byte aligned `bytes` + `skip` on.
struct CopiedRow {
  const uint8_t* bytes;
  int skip;

  __device__ Rgb8 operator()(int at) const {
    const uint8_t* pixel = bytes + skip + at;
    return {pixel[0], pixel[1], pixel[2]};
  }
  __device__ uint32_t Word(uint32_t at) const {
    return *reinterpret_cast<const uint32_t*>(bytes + at);
  }
};

// As fused_source.cuh packs it, or as stored in a row.
__device__ inline int32_t GetColor(uint32_t pixel, int color) {
  return static_cast<int32_t>(pixel >> (8 * color) & 0xFFU);
}
__device__ inline int32_t GetColor(const Rgb8& pixel, int color) {
  return color == 0 ? pixel.r : (color == 1 ? pixel.g : pixel.b);
}

// Two halves of a word.
__device__ inline uint32_t PackHalves(int low, int high) {
  return static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 16;
}

// As __byte_perm, which masks `selector` each time.
__device__ inline uint32_t SelectBytes(uint32_t low, uint32_t high, uint32_t selector) {
#if defined(__CUDA_ARCH__)
  uint32_t bytes = 0;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selector));
  return bytes;
#else
  return __byte_perm(low, high, selector);
#endif
}

// OpenCV's arithmetic in the lower bits of float32 numbers, where sums that round down do its
// shifts: of 8 and more, in units of 2^-20, the horizontal sums; of 2^23 and more the vertical
// ones.
inline constexpr uint32_t kHorizontalZero = 0x41000000;  // 8
inline constexpr float kVerticalZero = 1 << 23;

// Adds OpencvVerticalTerm; `horizontal` is kHorizontalZero more than OpencvHorizontal. Besides, the
// sum grows by 2^7 `weight`.
__device__ inline float AddOpencvTerm(float sum, uint32_t horizontal, float weight) {
  const float shifted = __fadd_rd(__uint_as_float(horizontal), 120.0F);  // 2^7, units of 2^-16
  return __fmaf_rd(shifted, weight, sum);
}

// kCopied: of rows that are CopiedRow.
template <bool kCopied>
class Opencv8Filter {
 public:
  using Sum = float;
  using Number = int32_t;

  __device__ explicit Opencv8Filter(const QuadColumns& columns) {
    const int4 left_weights = columns.Weights(0);
    const int4 right_weights = columns.Weights(1);
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const int left = columns.Position(Pick(columns.first, i));
      const int right = columns.Position(Pick(columns.first, i) + 1);
      const int left_weight = Pick(left_weights, i);
      const int right_weight = Pick(right_weights, i);
      Column& column = columns_[i];
      if (!kCopied) {
        column.at = PackHalves(left, right);
        column.weights = PackHalves(left_weight, right_weight);
      } else {
        Align(column, min(left, right));
        // In the order of memory; at an image's sides both pixels are one.
        column.weights = left < right   ? PackHalves(left_weight, right_weight)
                         : left > right ? PackHalves(right_weight, left_weight)
                                        : PackHalves(left_weight + right_weight, 0);
      }
    }
  }

  __device__ Sum Start() {
    row_weights_ = 0;
    return kVerticalZero;
  }
  __device__ static bool IsZero(int32_t weight) { return weight == 0; }

  template <typename Read>
  __device__ void AddRow(const Read& read, int32_t weight, Sum (&sums)[kQuad][kColors]) {
    if constexpr (kCopied) Skip(read.skip);
    const auto float_weight = static_cast<float>(weight);
    row_weights_ += weight;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const Column& column = columns_[i];
      const ColorPairs pairs = Load(read, column);
      const uint32_t horizontal[kColors] = {
          __dp2a_lo(column.weights, pairs.first_two, kHorizontalZero),
          __dp2a_hi(column.weights, pairs.first_two, kHorizontalZero),
          __dp2a_lo(column.weights, pairs.last, kHorizontalZero)};
#pragma unroll
      for (int c = 0; c < kColors; ++c) {
        sums[i][c] = AddOpencvTerm(sums[i][c], horizontal[c], float_weight);
      }
    }
  }

  __device__ Number Finish(Sum sum, float /*sum_scale*/) const {
    return OpencvVerticalRound(__float_as_int(sum) - __float_as_int(kVerticalZero) -
                               (row_weights_ << 7));
  }

 private:
  // Positions are below 2^16, the longest side of an image, and so are bytes in shared memory;
  // weights are at most 2^12.
  struct Column {
    uint32_t weights;        // of both pixels
    uint32_t at;             // both positions; kCopied: of the word that holds the first byte
    uint32_t select;         // kCopied: bytes of that word and the next one
    uint32_t side;           // of the word besides these two, or of the first again
    uint32_t select_beside;  // bytes of the second word and that one
  };

  // The bytes of both pixels in turn.
  struct ColorPairs {
    uint32_t first_two;  // colors 0 and 1
    uint32_t last;       // color 2, in the lower half
  };

  __device__ static void Align(Column& column, int position) {
    const uint32_t shift = static_cast<uint32_t>(position) & 3U;
    column.at = static_cast<uint32_t>(position) - shift;
    column.select = 0x4130U + 0x1111U * shift;
    column.side = shift == 3 ? column.at + 8 : column.at;
    column.select_beside = ((shift + 6) & 7U) | (shift + 1) << 4;
  }

  // Rows that are whole multiples of 16 bytes apart have one `skip`.
  __device__ void Skip(int skip) {
    if (skip == skip_) return;
#pragma unroll
    for (Column& column : columns_) {
      const uint32_t shift = (column.select & 0xFU);
      Align(column, static_cast<int>(column.at + shift) + skip - skip_);
    }
    skip_ = skip;
  }

  __device__ static ColorPairs Load(const CopiedRow& row, const Column& column) {
    const uint32_t second = row.Word(column.at + 4);
    return {SelectBytes(row.Word(column.at), second, column.select),
            SelectBytes(second, row.Word(column.side), column.select_beside)};
  }
  template <typename Read>
  __device__ static ColorPairs Load(const Read& read, const Column& column) {
    const uint32_t left = read(static_cast<int>(column.at & 0xFFFFU));
    const uint32_t right = read(static_cast<int>(column.at >> 16));
    return {SelectBytes(left, right, 0x5140), SelectBytes(left, right, 0x62)};
  }

  Column columns_[kQuad];
  int skip_ = 0;
  int32_t row_weights_ = 0;
};

// A filter of any taps, by the arithmetic of one sample.
template <typename Arithmetic>
class TapFilter : public Arithmetic {
 public:
  using Sum = typename Arithmetic::Sum;

  __device__ explicit TapFilter(const QuadColumns& columns) : columns_(columns) {}

  template <typename Read>
  __device__ void AddRow(const Read& read, int32_t weight, Sum (&sums)[kQuad][kColors]) const {
    Sum horizontal[kQuad][kColors];
    Clear(*this, horizontal);
    columns_.ForEachTap(read, [&](int i, const auto& pixel, int32_t tap) {
#pragma unroll
      for (int c = 0; c < kColors; ++c) {
        horizontal[i][c] += Arithmetic::Product(GetColor(pixel, c), tap);
      }
    });
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
#pragma unroll
      for (int c = 0; c < kColors; ++c) sums[i][c] += Arithmetic::Term(horizontal[i][c], weight);
    }
  }

 private:
  QuadColumns columns_;
};

struct Pillow8Arithmetic {
  using Sum = int32_t;
  using Number = int32_t;

  __device__ static Sum Start() { return kPillowHalf; }
  __device__ static bool IsZero(int32_t weight) { return weight == 0; }
  __device__ static Sum Product(int32_t color, int32_t tap) { return color * tap; }
  __device__ static Sum Term(Sum horizontal, int32_t weight) {
    return PillowRound(horizontal) * weight;
  }
  __device__ static Number Finish(Sum sum, float /*sum_scale*/) { return PillowRound(sum); }
};

// float32, sums in the order of the taps. Leaving out a weight of 0 changes nothing: no sum is -0.
struct FloatArithmetic {
  using Sum = float;
  using Number = float;

  __device__ static Sum Start() { return 0.0F; }
  __device__ static bool IsZero(int32_t weight) { return __int_as_float(weight) == 0.0F; }
  __device__ static Sum Product(int32_t color, int32_t tap) {
    return static_cast<float>(color) * __int_as_float(tap);
  }
  __device__ static Sum Term(Sum horizontal, int32_t weight) {
    return horizontal * __int_as_float(weight);
  }
  __device__ static Number Finish(Sum sum, float /*sum_scale*/) { return sum; }
};

struct OpencvFloat8Arithmetic : FloatArithmetic {
  using Number = int32_t;
  __device__ static Number Finish(Sum sum, float sum_scale) { return OpencvRound(sum * sum_scale); }
};

}  // namespace endcap
