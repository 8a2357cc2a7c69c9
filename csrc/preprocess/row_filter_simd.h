#pragma once

#include <cstdint>
#include <vector>

#include "preprocess/axis_taps.h"

namespace endcap {

// The loops of row_filter.h in vector code (Highway), for rows of four bytes a pixel: R, G, B and
// one that means nothing. Rows of gray take the scalar horizontal loop. Results equal the scalar
// ones bit for bit.
// They read and write past the end of rows, never past kRowSlackBytes.

// One axis of taps in the order in which the vector loops want them. `packed` holds pairs of 16-bit
// weights for neighbouring taps.
struct PackedColumns {
  AxisTaps taps;
  std::vector<int32_t> offset_bytes;  // of the first tap's pixel in a row
  std::vector<int32_t> group_count;   // groups of four taps; Pillow's arithmetic only
  std::vector<int32_t> packed;
};

struct Opencv8Simd {
  using Columns = PackedColumns;
  using Intermediate = int16_t;  // what the scalar loop keeps, without the 4 bits dropped next
  using Output = uint8_t;
  static Columns Prepare(AxisTaps columns);
  static void Horizontal(const uint8_t* source, const Columns& columns, int channels,
                         Intermediate* out);
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out);
};

struct Pillow8Simd {
  using Columns = PackedColumns;
  using Intermediate = uint8_t;
  using Output = uint8_t;
  static Columns Prepare(AxisTaps columns);
  static void Horizontal(const uint8_t* source, const Columns& columns, int channels,
                         Intermediate* out);
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out);
};

struct OpencvFloat8Simd {
  using Columns = AxisTaps;
  using Intermediate = float;
  using Output = uint8_t;
  static Columns Prepare(AxisTaps columns) { return columns; }
  static void Horizontal(const uint8_t* source, const Columns& columns, int channels,
                         Intermediate* out);
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out);
};

struct FloatSimd {
  using Columns = AxisTaps;
  using Intermediate = float;
  using Output = float;
  static Columns Prepare(AxisTaps columns) { return columns; }
  static void Horizontal(const uint8_t* source, const Columns& columns, int channels,
                         Intermediate* out);
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out);
};

}  // namespace endcap
