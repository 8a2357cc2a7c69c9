#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "common/row_band.h"
#include "endcap/decode.h"
#include "preprocess/placement.h"
#include "preprocess/resize/axis_taps.h"
#include "preprocess/resize/resizer.h"
#include "preprocess/tensor/row_writer.h"

namespace endcap {

// Resizes bands of rows as they arrive: each needed row is filtered horizontally into a ring; an
// output row leaves as soon as its last source row is there. `Filter` is one of
// row_filter_scalar.h.
template <typename Filter>
class BandResizer : public Resizer {
 public:
  // transform: how the file's rows lie in the oriented image; its axes are not swapped.
  BandResizer(const PreprocessParams& params, const Placement& placement,
              const OrientationTransform& transform, RowWriter& writer)
      : params_(params), placement_(placement), transform_(transform), writer_(writer) {}

  void Begin(const BandFormat& format) override {
    format_ = format;
    AxisTaps columns =
        MakeAxisTaps(params_, {format.width, placement_.resized_w, placement_.crop_x,
                               placement_.visible_w, false, format.height, placement_.resized_h});
    if (transform_.from_right) columns = MirrorTaps(std::move(columns), format.width, false);
    needed_columns_ = NeededSamples(columns);
    columns_ = Filter::Prepare(std::move(columns));
    rows_ = MakeAxisTaps(params_, {format.height, placement_.resized_h, placement_.crop_y,
                                   placement_.visible_h, true, format.width, placement_.resized_w});
    if (transform_.from_bottom) rows_ = MirrorTaps(std::move(rows_), format.height, true);
    ring_rows_ = RingRows(rows_);
    samples_ = placement_.visible_w * format.channels;
    copies_ = std::is_same_v<Output, uint8_t> && !transform_.from_right &&
              !transform_.from_bottom && format.width == placement_.resized_w &&
              format.height == placement_.resized_h;
    ring_stride_ = static_cast<size_t>(samples_) + kRowSlackBytes / sizeof(Intermediate);
    if (!copies_) ring_.resize(static_cast<size_t>(ring_rows_) * ring_stride_);
    out_row_.resize(static_cast<size_t>(samples_) + kRowSlackBytes / sizeof(Output));
    tap_rows_.resize(static_cast<size_t>(rows_.taps));
  }

  void Consume(const RowBand& band) override {
    for (int i = 0; i < band.row_count && next_output_ < rows_.size(); ++i) {
      const int row = band.first_row + i;
      const uint8_t* pixels = band.data + band.row_stride_bytes * i;
      if (copies_) {
        // The taps of some filters begin above the row itself.
        if (row == placement_.crop_y + next_output_) CopyRow(pixels);
        continue;
      }
      if (row < rows_.First(next_output_)) continue;
      Filter::Horizontal(pixels, columns_, format_.channels, RingRow(row));
      while (next_output_ < rows_.size() && rows_.Last(next_output_) <= row) EmitOutputRow();
    }
  }

  // All rows: so that damage in a part that is cropped away is found as well.
  int EndRow() const override { return format_.height; }

  bool Complete() const override { return next_output_ == rows_.size(); }

  int NextRow(int row) const override {
    return NextNeeded(rows_, next_output_, row, format_.height);
  }

  ColumnSpan Columns() const override { return needed_columns_; }

 private:
  using Intermediate = typename Filter::Intermediate;
  using Output = typename Filter::Output;

  Intermediate* RingRow(int row) {
    return ring_.data() + static_cast<size_t>(row % ring_rows_) * ring_stride_;
  }

  // An image that has its size already: 8-bit filters would give each pixel back.
  void CopyRow(const uint8_t* pixels) {
    if constexpr (std::is_same_v<Output, uint8_t>) {
      writer_.WriteRow(next_output_, pixels + ptrdiff_t{placement_.crop_x} * format_.channels);
      ++next_output_;
    }
  }

  void EmitOutputRow() {
    for (int k = 0; k < rows_.taps; ++k) {
      tap_rows_[static_cast<size_t>(k)] =
          RingRow(rows_.index[rows_.Offset(next_output_) + static_cast<size_t>(k)]);
    }
    Filter::Vertical(tap_rows_.data(), rows_, next_output_, samples_, out_row_.data());
    writer_.WriteRow(transform_.from_bottom ? rows_.size() - 1 - next_output_ : next_output_,
                     out_row_.data());
    ++next_output_;
  }

  const PreprocessParams& params_;
  const Placement& placement_;
  const OrientationTransform transform_;
  RowWriter& writer_;
  BandFormat format_;
  typename Filter::Columns columns_;
  ColumnSpan needed_columns_;
  AxisTaps rows_;
  bool copies_ = false;
  int samples_ = 0;
  int ring_rows_ = 1;
  size_t ring_stride_ = 0;
  int next_output_ = 0;
  std::vector<Intermediate> ring_;
  std::vector<Output> out_row_;
  std::vector<const Intermediate*> tap_rows_;
};

}  // namespace endcap
