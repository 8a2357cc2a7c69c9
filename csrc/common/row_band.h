#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "endcap/decode.h"

namespace endcap {

// Vector code reads past the end of a row: this many bytes after the last row of a band of four
// channels must be readable. Their values are ignored.
inline constexpr int kRowSlackBytes = 256;

// Consecutive rows of an image, interleaved, 8 bits a channel. Valid during one Consume call.
struct RowBand {
  const uint8_t* data = nullptr;
  ptrdiff_t row_stride_bytes = 0;
  int first_row = 0;
  int row_count = 0;
};

// Columns [begin, end) of an image's rows.
struct ColumnSpan {
  int begin = 0;
  int end = std::numeric_limits<int>::max();  // clamped to the width
};

// The interface between decode and preprocess: the decoder passes rows from top to bottom, each at
// most once and all that NextRow requests, so that no full-size image exists in memory. One thread
// calls a sink; exceptions of a sink pass through the decoder.
class BandSink {
 public:
  virtual ~BandSink() = default;
  virtual void Begin(const BandFormat& format) = 0;
  virtual void Consume(const RowBand& band) = 0;
  // Rows from this one on are not needed; the decoder may stop there. Damage further down in the
  // file is then not detected.
  virtual int EndRow() const = 0;
  // Returns the next row from `row` on that is needed; at most the height. The decoder reads the
  // rows before it but need not convert them to pixels. May change after each Consume.
  virtual int NextRow(int row) const { return row; }
  // Returns the columns that are needed of any row; constant after Begin. The decoder may leave the
  // others unwritten, but passes whole rows.
  virtual ColumnSpan Columns() const { return {}; }
};

}  // namespace endcap
