#pragma once

#include <cstdint>

#include "preprocess/resize/axis_taps.h"

namespace endcap {

// The inner loops of a resize in one arithmetic. Rows are interleaved. `Intermediate` is what lies
// between the horizontal and the vertical pass, `Output` the result.
//
//   Prepare:    the columns' taps in the form that Horizontal takes
//   Horizontal: source row -> columns.size() * channels intermediates
//   Vertical:   `rows`, one intermediate row for each tap of `output` -> `samples` outputs

struct ScalarColumns {
  using Columns = AxisTaps;
  static Columns Prepare(AxisTaps columns) { return columns; }
};

struct Opencv8Scalar : ScalarColumns {
  using Intermediate = int32_t;
  using Output = uint8_t;
  static void Horizontal(const uint8_t* source, const AxisTaps& columns, int channels,
                         Intermediate* out);
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out);
};

// Axes with fixed_weight, both or none, are summed as Opencv8Scalar does; the intermediates are
// whole numbers below 2^24 then, exact in float.
struct OpencvFloat8Scalar : ScalarColumns {
  using Intermediate = float;
  using Output = uint8_t;
  static void Horizontal(const uint8_t* source, const AxisTaps& columns, int channels,
                         Intermediate* out);
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out);
};

struct Pillow8Scalar : ScalarColumns {
  using Intermediate = uint8_t;
  using Output = uint8_t;
  static void Horizontal(const uint8_t* source, const AxisTaps& columns, int channels,
                         Intermediate* out);
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out);
};

struct FloatScalar : ScalarColumns {
  using Intermediate = float;
  using Output = float;
  static void Horizontal(const uint8_t* source, const AxisTaps& columns, int channels,
                         Intermediate* out);
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out);
};

}  // namespace endcap
