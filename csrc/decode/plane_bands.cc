#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "common/chroma_upsampling.h"
#include "common/color_conversion.h"
#include "common/steady_clock.h"
#include "common/ycc_rows_simd.h"
#include "decode/jpeg_bands.h"

namespace endcap {
namespace {

// The last rows of MCUs of one component, as the decoder gives them: two, or more where threads
// decode ahead.
class PlaneRing {
 public:
  PlaneRing(const JpegFrame& frame, const JpegComponent& component, int mcu_rows)
      : rows_per_mcu_(component.rows_per_mcu()),
        rows_(mcu_rows * rows_per_mcu_),
        width_(component.width),
        height_(component.height),
        stride_(static_cast<size_t>(frame.padded_width(component)) + kRowSlackBytes),
        samples_(std::make_unique_for_overwrite<uint8_t[]>(stride_ * static_cast<size_t>(rows_))) {}

  int width() const noexcept { return width_; }
  int height() const noexcept { return height_; }

  // Where the decoder is to put the rows of MCU row `index`.
  SampleBlock Slot(int index) { return {At(index * rows_per_mcu_), stride_}; }

  // Row `row` of the component, which must be of the last MCU rows; beyond the border the
  // border's.
  const uint8_t* Row(int row) { return At(row < 0 ? 0 : (row >= height_ ? height_ - 1 : row)); }

 private:
  uint8_t* At(int row) { return samples_.get() + stride_ * static_cast<size_t>(row % rows_); }

  int rows_per_mcu_;
  int rows_;
  int width_;
  int height_;
  size_t stride_;
  std::unique_ptr<uint8_t[]> samples_;
};

// Rows of one component at the size of the image.
class ComponentRows {
 public:
  ComponentRows(const JpegFrame& frame, size_t component, int mcu_rows)
      : plane_(frame, frame.components[component], mcu_rows),
        upsampling_(GetPlaneUpsampling(frame, component).value_or(PlaneUpsampling{})),
        sums_(static_cast<size_t>(plane_.width()) + 2 + kRowSlackBytes),
        samples_(static_cast<size_t>(frame.width) + 2 + kRowSlackBytes) {}

  PlaneRing& plane() noexcept { return plane_; }
  bool blends_rows() const noexcept { return upsampling_.blends_rows; }

  // For image row y, a sample for each of its columns; `columns` of them are valid until the next
  // call.
  const uint8_t* Samples(int y, const ColumnSpan& columns) {
    if (upsampling_ == PlaneUpsampling{}) return plane_.Row(y);
    if (upsampling_.blends_columns) {
      BlendColumns(y, columns);
    } else if (upsampling_.blends_rows) {
      const int x = columns.begin;
      // The library's roundings above and below differ.
      BlendRowsToBytes(plane_.Row(y / 2) + x, plane_.Row(Neighbour(y)) + x, columns.end - x,
                       UpsampleBias(false, y % 2 != 0), samples_.data() + x);
    } else {
      Repeat(plane_.Row(y / upsampling_.rows), columns);
    }
    return samples_.data();
  }

  // The same as sums for DoubleYccToRgb, where a sum is that of two columns.
  const int16_t* Sums(int y, const ColumnSpan& columns) {
    int16_t* sums = sums_.data() + 1;
    // With the neighbours that the first and the last column take their quarters from.
    const int x = std::max(columns.begin / 2 - 1, 0);
    const int count = std::min(columns.end / 2 + 2, plane_.width()) - x;
    if (upsampling_.blends_rows) {
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

  void BlendColumns(int y, const ColumnSpan& columns) {
    const int16_t* sums = Sums(y, columns);
    for (int x = columns.begin; x < columns.end; ++x) {
      const bool odd = x % 2 != 0;
      const int near = sums[x / 2];
      const int far = sums[odd ? x / 2 + 1 : x / 2 - 1];
      samples_[static_cast<size_t>(x)] =
          static_cast<uint8_t>(upsampling_.blends_rows ? UpsampleBlendedColumn(near, far, odd)
                                                       : UpsampleColumn(near, far, odd));
    }
  }

  void Repeat(const uint8_t* row, const ColumnSpan& columns) {
    for (int x = columns.begin; x < columns.end; ++x) {
      samples_[static_cast<size_t>(x)] = row[x / upsampling_.columns];
    }
  }

  PlaneRing plane_;
  PlaneUpsampling upsampling_;
  std::vector<int16_t> sums_;
  std::vector<uint8_t> samples_;
};

// The planes of one file, and the pixels that are made of them.
class Planes {
 public:
  Planes(const PlaneDecoder& decoder, const BandFormat& format, int mcu_rows)
      : color_(decoder.frame().color), format_(format), upsampling_(decoder.upsampling()) {
    rows_.reserve(decoder.plane_count());
    for (size_t i = 0; i < decoder.plane_count(); ++i) {
      rows_.emplace_back(decoder.frame(), i, mcu_rows);
    }
    if (color_ == JpegColor::kYcck) {
      cmyk_.resize(4 * static_cast<size_t>(format.width) + kRowSlackBytes);
    }
  }

  // Whether a row of the image may need samples of the next row of MCUs, or of the one before.
  bool has_row_context() const noexcept {
    return std::ranges::any_of(rows_, [](const ComponentRows& rows) { return rows.blends_rows(); });
  }

  // Where the decoder is to put MCU row `mcu` of each component.
  PlaneRows Slots(int mcu) {
    PlaneRows slots;
    for (size_t i = 0; i < rows_.size(); ++i) slots[i] = rows_[i].plane().Slot(mcu);
    return slots;
  }

  // Makes `columns` of row y, which begin at an even one, in their places of `row`.
  void MakeRow(int y, const ColumnSpan& columns, uint8_t* row) {
    uint8_t* out = row + ptrdiff_t{format_.channels} * columns.begin;
    switch (color_) {
      case JpegColor::kGray:
      case JpegColor::kYcbcr:
        return MakeYccRow(y, columns, out);
      case JpegColor::kRgb:
        return MakeRgbRow(y, columns, out);
      case JpegColor::kCmyk:
      case JpegColor::kYcck:
        return MakeCmykRow(y, columns, out);
    }
  }

 private:
  const uint8_t* Samples(size_t component, int y, const ColumnSpan& columns) {
    return rows_[component].Samples(y, columns) + columns.begin;
  }

  void MakeYccRow(int y, const ColumnSpan& columns, uint8_t* out) {
    const int x = columns.begin;
    const int width = columns.end - x;
    const int channels = format_.channels;
    const uint8_t* luma = Samples(0, y, columns);
    if (channels == 1) {
      std::copy_n(luma, width, out);
    } else if (rows_.size() == 1) {
      GrayToRgb(luma, width, channels, out);
    } else if (upsampling_ && HasColumnContext(*upsampling_)) {
      DoubleYccToRgb(luma, rows_[1].Sums(y, columns) + x / 2, rows_[2].Sums(y, columns) + x / 2,
                     width, HasRowContext(*upsampling_), channels, out);
    } else {
      YccToRgb(luma, Samples(1, y, columns), Samples(2, y, columns), width, channels, out);
    }
  }

  void MakeRgbRow(int y, const ColumnSpan& columns, uint8_t* out) {
    const std::array rgb = {Samples(0, y, columns), Samples(1, y, columns), Samples(2, y, columns)};
    const int width = columns.end - columns.begin;
    for (int x = 0; x < width; ++x, out += format_.channels) {
      if (format_.channels == 1) {
        out[0] = Luma(rgb[0][x], rgb[1][x], rgb[2][x]);
      } else {
        for (size_t c = 0; c < 3; ++c) out[c] = rgb[c][x];
      }
    }
  }

  // YCCK is YCbCr of the inverted inks, and black.
  void MakeCmykRow(int y, const ColumnSpan& columns, uint8_t* out) {
    const int width = columns.end - columns.begin;
    const uint8_t* black = Samples(3, y, columns);
    std::array<const uint8_t*, 4> ink = {Samples(0, y, columns), Samples(1, y, columns),
                                         Samples(2, y, columns), black};
    if (color_ == JpegColor::kCmyk) {
      return ConvertCmykRow(ink, 1, width, format_.channels, out);
    }
    uint8_t* const cmyk = cmyk_.data();
    YccToRgb(ink[0], ink[1], ink[2], width, 4, cmyk);
    for (ptrdiff_t x = 0; x < width; ++x) {
      for (ptrdiff_t c = 0; c < 3; ++c) cmyk[4 * x + c] = static_cast<uint8_t>(~cmyk[4 * x + c]);
      cmyk[4 * x + 3] = black[x];
    }
    ConvertCmykRow({cmyk, cmyk + 1, cmyk + 2, cmyk + 3}, 4, width, format_.channels, out);
  }

  JpegColor color_;
  BandFormat format_;
  std::optional<ChromaUpsampling> upsampling_;  // of two planes of chroma alike
  std::vector<ComponentRows> rows_;
  std::vector<uint8_t> cmyk_;  // a row
};

// Columns of two share their chroma, so they are made together.
ColumnSpan EvenColumns(const ColumnSpan& needed, int width) {
  return {needed.begin / 2 * 2, std::min(needed.end, width)};
}

}  // namespace

int64_t PlanesToBands(PlaneDecoder& decoder, const BandFormat& format, BandSink& sink, Crew* crew) {
  const JpegFrame& frame = decoder.frame();
  const ParallelScan::Plan plan = crew != nullptr ? decoder.MakePlan(*crew) : ParallelScan::Plan{};
  // Other threads may write to them until `decoder` ends.
  const auto shared_planes = std::make_shared<Planes>(decoder, format, plan.mcu_rows);
  Planes& planes = *shared_planes;
  const size_t row_bytes = static_cast<size_t>(format.width) * static_cast<size_t>(format.channels);
  std::vector<uint8_t> pixels(row_bytes + kRowSlackBytes);

  int64_t decode_ns = 0;
  const int mcu_rows = frame.rows_per_mcu();
  const int end_row = std::min(sink.EndRow(), format.height);
  const bool context = planes.has_row_context();
  const ColumnSpan columns = EvenColumns(sink.Columns(), format.width);
  // Upsampling reads up to two more samples of chroma on each side.
  constexpr int kMoreColumns = 4;
  decoder.NeedColumns(columns.begin - kMoreColumns, columns.end + kMoreColumns);
  // The first row after an MCU may need chroma of it, and the last of one chroma of the next.
  const auto is_needed = [&](int row, int mcu) {
    return sink.NextRow(row) < (mcu + 1) * mcu_rows + (context ? 1 : 0);
  };
  if (plan.pieces > 0) {
    const int last_row = end_row + (context && end_row < format.height ? 0 : -1);
    const int end_mcu = last_row / mcu_rows + 1;
    std::vector<bool> needed(static_cast<size_t>(end_mcu));
    for (int mcu = 0; mcu < end_mcu; ++mcu) {
      const int first = std::max(mcu * mcu_rows - (context ? 1 : 0), 0);
      needed[static_cast<size_t>(mcu)] = is_needed(first, mcu);
    }
    const auto rows_of = [shared_planes, needed = std::move(needed)](int mcu) {
      return needed[static_cast<size_t>(mcu)] ? shared_planes->Slots(mcu) : PlaneRows{};
    };
    decoder.Share(*crew, plan, rows_of, end_mcu);
  }
  int row = 0;
  // The last row of an MCU may need chroma of the next MCU row, so one more may have to be read.
  for (int mcu = 0; mcu * mcu_rows < end_row || row < end_row; ++mcu) {
    const int64_t start = SteadyNowNs();
    const PlaneRows slots = planes.Slots(mcu);
    int end = (mcu + 1) * mcu_rows;
    decoder.ReadMcuRow(is_needed(row, mcu) ? &slots : nullptr);
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
