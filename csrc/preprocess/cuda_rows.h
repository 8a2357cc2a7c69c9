#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "decode/jpeg_plane_layout.h"
#include "endcap/row_band.h"
#include "preprocess/fused_launch.h"

namespace endcap {

// Rows that go up as pixels begin where wide loads are aligned.
inline size_t AlignedRow(int width, int channels) {
  const size_t bytes = static_cast<size_t>(width) * static_cast<size_t>(channels);
  return (bytes + kPlaneRowAlignment - 1) / kPlaneRowAlignment * kPlaneRowAlignment;
}

// Where the next image of a block begins.
inline size_t AlignPlane(size_t bytes) {
  return (bytes + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment;
}

// What rows of that format are to the kernel.
inline FusedSource RowSource(int channels) {
  return channels == 1 ? FusedSource::kGray : FusedSource::kRgb;
}

// Puts bands into rows of `row_stride_bytes`.
class RowSink : public BandSink {
 public:
  RowSink(uint8_t* rows, size_t row_stride_bytes)
      : rows_(rows), row_stride_bytes_(row_stride_bytes) {}

  void Begin(const BandFormat& format) override { format_ = format; }
  void Consume(const RowBand& band) override {
    const size_t bytes = static_cast<size_t>(format_.width) * static_cast<size_t>(format_.channels);
    for (int i = 0; i < band.row_count; ++i) {
      std::memcpy(rows_ + row_stride_bytes_ * static_cast<size_t>(band.first_row + i),
                  band.data + band.row_stride_bytes * i, bytes);
    }
  }
  int EndRow() const override { return format_.height; }

 private:
  uint8_t* rows_;
  size_t row_stride_bytes_;
  BandFormat format_;
};

}  // namespace endcap
