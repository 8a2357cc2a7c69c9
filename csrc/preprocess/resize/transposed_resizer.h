#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "common/row_band.h"
#include "endcap/decode.h"
#include "preprocess/placement.h"
#include "preprocess/resize/axis_taps.h"
#include "preprocess/resize/resizer.h"
#include "preprocess/resize/row_filter_simd.h"
#include "preprocess/tensor/row_writer.h"

namespace endcap {

// Resizes an image whose axes EXIF swaps without orienting it first: a row of the file is a column
// of the oriented image. The taps of oriented columns are applied to rows of the file as they
// arrive, those of oriented rows along the output; the order of the two passes is that of an
// oriented image, and so is every result. Finished columns wait in a picture of the resized size.
//
// `Filter`: Opencv8Simd or Pillow8Simd, for rows of four channels.
template <typename Filter>
class TransposedResizer : public Resizer {
 public:
  TransposedResizer(const PreprocessParams& params, const Placement& placement,
                    const OrientationTransform& transform, RowWriter& writer)
      : params_(params), placement_(placement), transform_(transform), writer_(writer) {}

  void Begin(const BandFormat& format) override {
    format_ = format;
    // Oriented columns in the order in which the file's rows complete them.
    columns_ =
        MakeAxisTaps(params_, {format.height, placement_.resized_w, placement_.crop_x,
                               placement_.visible_w, false, format.width, placement_.resized_h});
    if (transform_.from_bottom) columns_ = MirrorTaps(std::move(columns_), format.height, true);
    AxisTaps rows =
        MakeAxisTaps(params_, {format.width, placement_.resized_h, placement_.crop_y,
                               placement_.visible_h, true, format.height, placement_.resized_w});
    if (transform_.from_right) rows = MirrorTaps(std::move(rows), format.width, false);
    needed_columns_ = NeededSamples(rows);
    rows_ = Filter::PrepareTransposed(rows, format.width);

    ring_rows_ = RingRows(columns_);
    const size_t row_bytes = 4 * static_cast<size_t>(format.width);
    ring_stride_ = row_bytes + kRowSlackBytes;
    ring_.resize(ring_stride_ * static_cast<size_t>(ring_rows_));
    blended_.resize(kBefore + row_bytes + kRowSlackBytes);
    tap_rows_.resize(static_cast<size_t>(columns_.taps));
    panel_stride_ = 4 * static_cast<size_t>(placement_.visible_h) + kRowSlackBytes;
    panel_.resize(panel_stride_ * kPanel);
    picture_stride_ = 4 * static_cast<size_t>(placement_.visible_w);
    picture_.resize(picture_stride_ * static_cast<size_t>(placement_.visible_h) + kRowSlackBytes);
  }

  void Consume(const RowBand& band) override {
    for (int i = 0; i < band.row_count && next_output_ < columns_.size(); ++i) {
      const int row = band.first_row + i;
      if (row < columns_.First(next_output_)) continue;
      std::memcpy(RingRow(row), band.data + band.row_stride_bytes * i,
                  4 * static_cast<size_t>(format_.width));
      while (next_output_ < columns_.size() && columns_.Last(next_output_) <= row) EmitColumn();
    }
    if (next_output_ == columns_.size()) WritePicture();
  }

  int EndRow() const override { return format_.height; }
  bool Complete() const override { return written_; }
  int NextRow(int row) const override {
    return NextNeeded(columns_, next_output_, row, format_.height);
  }
  ColumnSpan Columns() const override { return needed_columns_; }

 private:
  using Blended = typename Filter::TransposedIntermediate;
  static constexpr size_t kBefore = 16;  // space for the pixel before the first
  // Columns that wait together, so that the picture is written by whole runs of a row.
  static constexpr size_t kPanel = 8;

  uint8_t* RingRow(int row) {
    return ring_.data() + static_cast<size_t>(row % ring_rows_) * ring_stride_;
  }

  void EmitColumn() {
    for (int k = 0; k < columns_.taps; ++k) {
      tap_rows_[static_cast<size_t>(k)] =
          RingRow(columns_.index[columns_.Offset(next_output_) + static_cast<size_t>(k)]);
    }
    Blended* blended = blended_.data() + kBefore;
    Filter::TransposedColumns(tap_rows_.data(), columns_, next_output_, format_.width, blended);
    Filter::TransposedRows(blended, rows_, panel_.data() + panel_stride_ * panel_count_);
    ++panel_count_;
    ++next_output_;
    if (panel_count_ == kPanel || next_output_ == columns_.size()) StorePanel();
  }

  // Puts the columns of the panel into the picture, row by row.
  void StorePanel() {
    const auto first = static_cast<size_t>(next_output_) - panel_count_;
    const size_t last_x = static_cast<size_t>(columns_.size()) - 1;
    for (size_t y = 0; y < static_cast<size_t>(placement_.visible_h); ++y) {
      uint8_t* to = picture_.data() + picture_stride_ * y;
      for (size_t i = 0; i < panel_count_; ++i) {
        const size_t x = transform_.from_bottom ? last_x - (first + i) : first + i;
        std::memcpy(to + 4 * x, panel_.data() + panel_stride_ * i + 4 * y, 4);
      }
    }
    panel_count_ = 0;
  }

  void WritePicture() {
    if (written_) return;
    written_ = true;
    for (int y = 0; y < placement_.visible_h; ++y) {
      writer_.WriteRow(y, picture_.data() + picture_stride_ * static_cast<size_t>(y));
    }
  }

  const PreprocessParams& params_;
  const Placement& placement_;
  const OrientationTransform transform_;
  RowWriter& writer_;
  BandFormat format_;
  AxisTaps columns_;
  ColumnSpan needed_columns_;
  PackedTaps rows_;
  int ring_rows_ = 1;
  int next_output_ = 0;
  bool written_ = false;
  size_t ring_stride_ = 0;
  size_t panel_stride_ = 0;
  size_t panel_count_ = 0;
  size_t picture_stride_ = 0;
  std::vector<uint8_t> ring_;
  std::vector<Blended> blended_;
  std::vector<const uint8_t*> tap_rows_;
  std::vector<uint8_t> panel_;
  std::vector<uint8_t> picture_;
};

}  // namespace endcap
