#pragma once

#include <cstddef>
#include <cstdint>

namespace endcap {

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
  int channels = 0;  // 3: R, G, B; 1: gray
};

// The hand-over between decode and preprocess: rows arrive top to bottom, each exactly once, so a
// full-size image need not exist in memory.
class BandSink {
 public:
  virtual ~BandSink() = default;
  virtual void Begin(const BandFormat& format) = 0;
  virtual void Consume(const RowBand& band) = 0;
  // Rows from this one on are not needed; the source may stop early when it has passed it. A source
  // that stops early does not see damage further down in the file.
  virtual int EndRow() const = 0;
};

}  // namespace endcap
