#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace endcap {

// Vector code reads past the end of a row: so many bytes after the last row of a band of four
// channels must be readable. Their values do not matter.
inline constexpr int kRowSlackBytes = 256;

// Consecutive rows of an image, interleaved, 8 bits a channel. Valid during one Consume call.
struct RowBand {
  const uint8_t* data = nullptr;
  ptrdiff_t row_stride_bytes = 0;
  int first_row = 0;
  int row_count = 0;
};

// What a sink has to know before the first band.
struct BandFormat {
  int width = 0;     // pixels
  int height = 0;    // pixels
  int channels = 0;  // 1: gray; 3: R, G, B; 4: R, G, B and a byte that means nothing
};

// Columns [begin, end) of an image's rows.
struct ColumnSpan {
  int begin = 0;
  int end = std::numeric_limits<int>::max();  // beyond the width: up to it
};

// The hand-over between decode and preprocess: rows arrive top to bottom, each at most once and all
// that NextRow asks for, so a full-size image need not exist in memory.
class BandSink {
 public:
  virtual ~BandSink() = default;
  virtual void Begin(const BandFormat& format) = 0;
  virtual void Consume(const RowBand& band) = 0;
  // Rows from this one on are not needed; the source may stop early when it has passed it. A source
  // that stops early does not see damage further down in the file.
  virtual int EndRow() const = 0;
  // The first row from `row` on that is needed, as things stand now; at most the height. A source
  // may leave out the rows before it: it still reads them, but need not make pixels of them.
  virtual int NextRow(int row) const { return row; }
  // The columns that are needed of any row, known from Begin on. A source may leave the others
  // unwritten; the rows that it hands over are whole all the same.
  virtual ColumnSpan Columns() const { return {}; }
};

}  // namespace endcap
