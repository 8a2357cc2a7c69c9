#pragma once

#include <cstdint>
#include <vector>

#include "preprocess/resize/axis_taps.h"
#include "preprocess/resize/row_filter_scalar.h"

namespace endcap {

// Two 16-bit weights side by side, as vector code multiplies them.
inline int32_t Pair(int32_t first, int32_t second) {
  return static_cast<int32_t>(static_cast<uint32_t>(first & 0xFFFF) | static_cast<uint32_t>(second)
                                                                          << 16U);
}

// The loops of row_filter_scalar.h in vector code (Highway), for rows of four bytes a pixel: R, G,
// B and one that means nothing. Rows of gray take the scalar horizontal loop. Results equal the
// scalar ones bit for bit. They read and write past the end of rows, never past kRowSlackBytes.

// Columns in groups of four whose pixels lie near each other; OpenCV's arithmetic only.
struct NearColumns {
  std::vector<int32_t> offset_bytes;  // of a group's first pixel in a row
  std::vector<int32_t> places;        // of each column's two pixels behind that; empty: not near
};

// One axis of taps in the order of the vector loops. `packed` holds pairs of 16-bit
// weights for neighbouring taps.
struct PackedTaps {
  AxisTaps taps;
  std::vector<int32_t> offset_bytes;  // of the first tap's pixel in a row
  std::vector<int32_t> group_count;   // groups of four taps; Pillow's arithmetic only
  std::vector<int32_t> packed;
  NearColumns near;
};

// Filters that know an image whose axes are swapped have besides:
//
//   PrepareTransposed: oriented rows' taps, which run along rows of the file of `width` pixels
//   TransposedColumns: `columns`, one row of the file for each tap of `output` -> one row of
//                      `width` intermediates; writes the pixel before the first and the one after
//                      the last too
//   TransposedRows:    that row -> an oriented column
struct Opencv8Simd {
  using Columns = PackedTaps;
  using Intermediate = int16_t;  // what the scalar loop keeps, without the 4 bits dropped next
  using Output = uint8_t;
  static Columns Prepare(AxisTaps columns);
  static void Horizontal(const uint8_t* source, const Columns& columns, int channels,
                         Intermediate* out);
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out);

  using TransposedIntermediate = int16_t;
  static Columns PrepareTransposed(const AxisTaps& rows, int width);
  static void TransposedColumns(const uint8_t* const* rows, const AxisTaps& columns, int output,
                                int width, TransposedIntermediate* out);
  static void TransposedRows(const TransposedIntermediate* row, const Columns& rows, uint8_t* out);
};

struct Pillow8Simd {
  using Columns = PackedTaps;
  using Intermediate = uint8_t;
  using Output = uint8_t;
  static Columns Prepare(AxisTaps columns);
  static void Horizontal(const uint8_t* source, const Columns& columns, int channels,
                         Intermediate* out);
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out);

  // The intermediates are pixels, so both passes are those of an oriented image.
  using TransposedIntermediate = uint8_t;
  static Columns PrepareTransposed(const AxisTaps& rows, int /*width*/) { return Prepare(rows); }
  static void TransposedColumns(const uint8_t* const* rows, const AxisTaps& columns, int output,
                                int width, TransposedIntermediate* out) {
    Vertical(rows, columns, output, 4 * width, out);
  }
  static void TransposedRows(const TransposedIntermediate* row, const Columns& rows, uint8_t* out) {
    Horizontal(row, rows, 4, out);
  }
};

struct OpencvFloat8Simd : UnpackedColumns {
  using Intermediate = float;
  using Output = uint8_t;
  static void Horizontal(const uint8_t* source, const Columns& columns, int channels,
                         Intermediate* out);
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out);
};

struct FloatSimd : UnpackedColumns {
  using Intermediate = float;
  using Output = float;
  static void Horizontal(const uint8_t* source, const Columns& columns, int channels,
                         Intermediate* out);
  static void Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                       int samples, Output* out);
};

}  // namespace endcap
