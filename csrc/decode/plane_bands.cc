#include <algorithm>
#include <array>
#include <vector>

#include "common/steady_clock.h"
#include "common/ycc_rows_simd.h"
#include "decode/bands.h"

namespace endcap {
namespace {

// The last two rows of MCUs of one component, as the decoder gives them.
class PlaneRing {
 public:
  PlaneRing(const JpegFrame& frame, const JpegComponent& component)
      : mcu_rows_(component.rows_per_mcu()),
        width_(component.width),
        height_(component.height),
        stride_(static_cast<size_t>(frame.padded_width(component)) + kRowSlackBytes),
        samples_(stride_ * 2 * static_cast<size_t>(mcu_rows_)),
        rows_(static_cast<size_t>(mcu_rows_)) {}

  int width() const noexcept { return width_; }
  int height() const noexcept { return height_; }

  // Where the decoder is to put the rows of MCU row `index`.
  uint8_t** Slot(int index) {
    for (int i = 0; i < mcu_rows_; ++i) {
      rows_[static_cast<size_t>(i)] = At(index * mcu_rows_ + i);
    }
    return rows_.data();
  }

  // Row `row` of the component, which must be of the last two MCU rows; beyond the border the
  // border's.
  const uint8_t* Row(int row) { return At(row < 0 ? 0 : (row >= height_ ? height_ - 1 : row)); }

 private:
  uint8_t* At(int row) {
    return samples_.data() + stride_ * static_cast<size_t>(row % (2 * mcu_rows_));
  }

  int mcu_rows_;
  int width_;
  int height_;
  size_t stride_;
  std::vector<uint8_t> samples_;
  std::vector<uint8_t*> rows_;
};

// Rows of one chroma component, as the color conversion takes them.
class ChromaRows {
 public:
  ChromaRows(const JpegFrame& frame, const JpegComponent& component, ChromaUpsampling upsampling)
      : plane_(frame, component),
        has_row_context_(HasRowContext(upsampling)),
        sums_(static_cast<size_t>(plane_.width()) + 2 + kRowSlackBytes),
        samples_(static_cast<size_t>(plane_.width()) + kRowSlackBytes) {}

  PlaneRing& plane() noexcept { return plane_; }

  // For image row y, samples of full height; `columns` of them are valid until the next call.
  const uint8_t* Samples(int y, const ColumnSpan& columns) {
    if (!has_row_context_) return plane_.Row(y);
    const int x = columns.begin;
    // The library's roundings above and below differ.
    BlendRowsToBytes(plane_.Row(y / 2) + x, plane_.Row(Neighbour(y)) + x, columns.end - x,
                     y % 2 == 0 ? 1 : 2, samples_.data() + x);
    return samples_.data();
  }

  // The same as sums for DoubleYccToRgb, where a sum is that of two columns.
  const int16_t* Sums(int y, const ColumnSpan& columns) {
    int16_t* sums = sums_.data() + 1;
    // With the neighbours that the first and the last column take their quarters from.
    const int x = std::max(columns.begin / 2 - 1, 0);
    const int count = std::min(columns.end / 2 + 2, plane_.width()) - x;
    if (has_row_context_) {
      BlendRows(plane_.Row(y / 2) + x, plane_.Row(Neighbour(y)) + x, count, sums + x);
    } else {
      CopyRow(plane_.Row(y) + x, count, sums + x);
    }
    if (x == 0) sums[-1] = sums[0];
    if (x + count == plane_.width()) sums[plane_.width()] = sums[plane_.width() - 1];
    return sums;
  }

 private:
  static int Neighbour(int y) { return y % 2 == 0 ? y / 2 - 1 : y / 2 + 1; }

  PlaneRing plane_;
  bool has_row_context_;
  std::vector<int16_t> sums_;
  std::vector<uint8_t> samples_;
};

// The planes of one file, and the pixels that are made of them.
class Planes {
 public:
  Planes(const JpegFrame& frame, ChromaUpsampling upsampling, const BandFormat& format)
      : upsampling_(upsampling), format_(format), luma_(frame, frame.components[0]) {
    if (upsampling == ChromaUpsampling::kGray) return;
    chroma_.reserve(2);
    chroma_.emplace_back(frame, frame.components[1], upsampling);
    chroma_.emplace_back(frame, frame.components[2], upsampling);
  }

  // Where the decoder is to put MCU row `mcu` of each component.
  PlaneRows Slots(int mcu) {
    PlaneRows slots{{luma_.Slot(mcu)}};
    for (size_t i = 0; i < chroma_.size(); ++i) slots.rows[i + 1] = chroma_[i].plane().Slot(mcu);
    return slots;
  }

  // Makes `columns` of row y, which begin at an even one, in their places of `row`.
  void MakeRow(int y, const ColumnSpan& columns, uint8_t* row) {
    const int x = columns.begin;
    const int width = columns.end - x;
    const int channels = format_.channels;
    const uint8_t* luma = luma_.Row(y) + x;
    uint8_t* out = row + ptrdiff_t{channels} * x;
    if (channels == 1) {
      std::copy_n(luma, width, out);
    } else if (chroma_.empty()) {
      GrayToRgb(luma, width, channels, out);
    } else if (HasColumnContext(upsampling_)) {
      DoubleYccToRgb(luma, chroma_[0].Sums(y, columns) + x / 2, chroma_[1].Sums(y, columns) + x / 2,
                     width, HasRowContext(upsampling_), channels, out);
    } else {
      YccToRgb(luma, chroma_[0].Samples(y, columns) + x, chroma_[1].Samples(y, columns) + x, width,
               channels, out);
    }
  }

 private:
  ChromaUpsampling upsampling_;
  BandFormat format_;
  PlaneRing luma_;
  std::vector<ChromaRows> chroma_;
};

// Columns of two share their chroma, so they are made together.
ColumnSpan EvenColumns(const ColumnSpan& needed, int width) {
  return {needed.begin / 2 * 2, std::min(needed.end, width)};
}

}  // namespace

int64_t PlanesToBands(PlaneDecoder& decoder, ChromaUpsampling upsampling, const BandFormat& format,
                      BandSink& sink, ReadAhead* ahead) {
  const JpegFrame& frame = decoder.frame();
  Planes planes(frame, upsampling, format);
  const size_t row_bytes = static_cast<size_t>(format.width) * static_cast<size_t>(format.channels);
  std::vector<uint8_t> pixels(row_bytes + kRowSlackBytes);

  int64_t decode_ns = 0;
  const int mcu_rows = frame.rows_per_mcu();
  const int end_row = std::min(sink.EndRow(), format.height);
  const bool context = HasRowContext(upsampling);
  const ColumnSpan columns = EvenColumns(sink.Columns(), format.width);
  // Upsampling reads up to two more samples of chroma on each side.
  constexpr int kMoreColumns = 4;
  decoder.NeedColumns(columns.begin - kMoreColumns, columns.end + kMoreColumns);
  if (ahead != nullptr) decoder.BeginReadAhead(*ahead, (end_row + mcu_rows - 1) / mcu_rows);
  int row = 0;
  // The last row of an MCU may need chroma of the next MCU row, so one more may have to be read.
  for (int mcu = 0; mcu * mcu_rows < end_row || row < end_row; ++mcu) {
    const int64_t start = SteadyNowNs();
    const PlaneRows slots = planes.Slots(mcu);
    int end = (mcu + 1) * mcu_rows;
    // The first row after an MCU may need chroma of it.
    const bool needed = sink.NextRow(row) < (context ? end + 1 : end);
    decoder.ReadMcuRow(needed ? &slots : nullptr);
    decode_ns += SteadyNowNs() - start;
    if (context && end < format.height) --end;
    end = std::min(end, end_row);
    for (row = sink.NextRow(row); row < end; row = sink.NextRow(row + 1)) {
      planes.MakeRow(row, columns, pixels.data());
      sink.Consume({pixels.data(), static_cast<ptrdiff_t>(row_bytes), row, 1});
    }
  }
  return decode_ns;
}

}  // namespace endcap
