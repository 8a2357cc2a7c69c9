#pragma once

#include <cstdint>
#include <vector>

#include "endcap/decode.h"
#include "endcap/row_band.h"

namespace endcap {

// How a decoder stores a pixel, 8 bits a channel.
enum class StoredPixels : int32_t { kGray, kGrayAlpha, kRgb, kRgba };

int ChannelCount(StoredPixels pixels) noexcept;

// Takes the rows of a decoder from top to bottom and passes those that a sink needs on, in the
// sink's format: gray is spread to three channels or colors are converted to their luma.
class StoredRows {
 public:
  StoredRows(const BandFormat& format, Alpha alpha, BandSink& sink);

  int width() const noexcept { return format_.width; }
  int height() const noexcept { return format_.height; }
  // Rows from this one on are not needed.
  int end_row() const noexcept { return end_row_; }
  // Whether the sink needs this row, which is the next to be put or skipped.
  bool Needs(int row) const { return row < end_row_ && sink_.NextRow(row) == row; }
  // Passes on a row that is needed, of width() pixels.
  void Put(int row, StoredPixels stored, const uint8_t* pixels);

  // The time spent in conversion and sink.
  int64_t sink_ns() const noexcept { return sink_ns_; }

 private:
  template <StoredPixels kStored>
  void Convert(const uint8_t* pixels);

  BandFormat format_;
  Alpha alpha_;
  BandSink& sink_;
  int end_row_;
  std::vector<uint8_t> row_;
  int64_t sink_ns_ = 0;
};

}  // namespace endcap
