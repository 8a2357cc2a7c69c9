#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "preprocess/resize/axis_taps.h"
#include "preprocess/resize/resize_arithmetic.h"

namespace endcap {

// The inner loops of a resize in one arithmetic. Rows are interleaved. `Intermediate` is what lies
// between the horizontal and the vertical pass, `Output` the result.
//
//   Prepare:    the columns' taps in the form that Horizontal takes
//   Horizontal: source row -> columns.size() * channels intermediates
//   Vertical:   `rows`, one intermediate row for each tap of `output` -> `samples` outputs

// The sums of all taps of each column, from `start` on; finish(sum) is written.
template <typename Sum, typename Weight, typename Output, typename Finish>
void SumColumns(const uint8_t* source, const AxisTaps& columns, const std::vector<Weight>& weights,
                int channels, Sum start, Output* out, Finish finish) {
  const auto taps = static_cast<size_t>(columns.taps);
  for (int x = 0; x < columns.size(); ++x) {
    const size_t entry = columns.Offset(x);
    for (int c = 0; c < channels; ++c) {
      Sum sum = start;
      for (size_t k = 0; k < taps; ++k) {
        const Sum sample = source[ptrdiff_t{columns.index[entry + k]} * channels + c];
        sum += sample * weights[entry + k];
      }
      *out++ = finish(sum);
    }
  }
}

// The same of rows.
template <typename Sum, typename Input, typename Weight, typename Output, typename Finish>
void SumRows(const Input* const* rows, const AxisTaps& axis, const std::vector<Weight>& weights,
             int output, int samples, Sum start, Output* out, Finish finish) {
  const size_t entry = axis.Offset(output);
  const auto taps = static_cast<size_t>(axis.taps);
  for (int i = 0; i < samples; ++i) {
    Sum sum = start;
    for (size_t k = 0; k < taps; ++k) sum += rows[k][i] * weights[entry + k];
    out[i] = finish(sum);
  }
}

struct UnpackedColumns {
  using Columns = AxisTaps;
  static Columns Prepare(AxisTaps columns) { return columns; }
};

// OpenCV's 8-bit linear filter, whose intermediates are whole numbers of any type.
template <typename Number>
struct Opencv8Scalar : UnpackedColumns {
  using Intermediate = Number;
  using Output = uint8_t;
  static void Horizontal(const uint8_t* source, const AxisTaps& columns, int channels,
                         Intermediate* out) {
    for (int x = 0; x < columns.size(); ++x) {
      const size_t entry = columns.Offset(x);
      const int32_t* weight = columns.fixed_weight.data() + entry;
      const uint8_t* left = source + ptrdiff_t{columns.index[entry]} * channels;
      const uint8_t* right = source + ptrdiff_t{columns.index[entry + 1]} * channels;
      for (int c = 0; c < channels; ++c) {
        *out++ = static_cast<Number>(OpencvHorizontal(left[c], right[c], weight[0], weight[1]));
      }
    }
  }
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out) {
    const int32_t* weight = axis.fixed_weight.data() + axis.Offset(output);
    for (int i = 0; i < samples; ++i) {
      out[i] = OpencvVertical(static_cast<int32_t>(rows[0][i]), static_cast<int32_t>(rows[1][i]),
                              weight[0], weight[1]);
    }
  }
};

struct Pillow8Scalar : UnpackedColumns {
  using Intermediate = uint8_t;
  using Output = uint8_t;
  static void Horizontal(const uint8_t* source, const AxisTaps& columns, int channels,
                         Intermediate* out) {
    SumColumns(source, columns, columns.fixed_weight, channels, kPillowHalf, out,
               [](int32_t sum) { return PillowRound(sum); });
  }
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out) {
    SumRows(rows, axis, axis.fixed_weight, output, samples, kPillowHalf, out,
            [](int32_t sum) { return PillowRound(sum); });
  }
};

struct FloatScalar : UnpackedColumns {
  using Intermediate = float;
  using Output = float;
  static void Horizontal(const uint8_t* source, const AxisTaps& columns, int channels,
                         Intermediate* out) {
    SumColumns(source, columns, columns.float_weight, channels, 0.0F, out, std::identity());
  }
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out) {
    SumRows(rows, axis, axis.float_weight, output, samples, 0.0F, out, std::identity());
  }
};

// Axes with fixed_weight, both or none, are summed as Opencv8Scalar does; the intermediates are
// whole numbers below 2^24 then, exact in float.
struct OpencvFloat8Scalar : UnpackedColumns {
  using Intermediate = float;
  using Output = uint8_t;
  static void Horizontal(const uint8_t* source, const AxisTaps& columns, int channels,
                         Intermediate* out) {
    if (columns.fixed_weight.empty())
      return FloatScalar::Horizontal(source, columns, channels, out);
    Opencv8Scalar<float>::Horizontal(source, columns, channels, out);
  }
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out) {
    if (!axis.fixed_weight.empty()) {
      return Opencv8Scalar<float>::Vertical(rows, axis, output, samples, out);
    }
    SumRows(rows, axis, axis.float_weight, output, samples, 0.0F, out,
            [&](float sum) { return OpencvRound(sum * axis.sum_scale); });
  }
};

}  // namespace endcap
