#pragma once

#include <algorithm>
#include <vector>

#include "endcap/row_band.h"
#include "preprocess/axis_taps.h"
#include "preprocess/placement.h"
#include "preprocess/row_writer.h"

namespace endcap {

// Resizes bands of rows as they arrive: each needed row is filtered horizontally into a ring; an
// output row leaves as soon as its last source row is there. `Filter` is one of row_filter.h.
template <typename Filter>
class BandResizer : public BandSink {
 public:
  BandResizer(const PreprocessParams& params, const Placement& placement, RowWriter& writer)
      : params_(params), placement_(placement), writer_(writer) {}

  void Begin(const BandFormat& format) override {
    format_ = format;
    columns_ =
        MakeAxisTaps(params_, {format.width, placement_.resized_w, placement_.crop_x,
                               placement_.visible_w, false, format.height, placement_.resized_h});
    rows_ = MakeAxisTaps(params_, {format.height, placement_.resized_h, placement_.crop_y,
                                   placement_.visible_h, true, format.width, placement_.resized_w});
    samples_ = placement_.visible_w * format.channels;
    for (int y = 0; y < rows_.size(); ++y) {
      ring_rows_ = std::max(ring_rows_, rows_.Last(y) - rows_.First(y) + 1);
    }
    ring_.resize(static_cast<size_t>(ring_rows_) * static_cast<size_t>(samples_));
    out_row_.resize(static_cast<size_t>(samples_));
    tap_rows_.resize(static_cast<size_t>(rows_.taps));
  }

  void Consume(const RowBand& band) override {
    for (int i = 0; i < band.row_count && next_output_ < rows_.size(); ++i) {
      const int row = band.first_row + i;
      if (row < rows_.First(next_output_)) continue;
      Filter::Horizontal(band.data + band.row_stride_bytes * i, columns_, format_.channels,
                         RingRow(row));
      while (next_output_ < rows_.size() && rows_.Last(next_output_) <= row) EmitOutputRow();
    }
  }

  // All rows: so that damage in a part that is cropped away is found as well.
  int EndRow() const override { return format_.height; }

 private:
  typename Filter::Intermediate* RingRow(int row) {
    return ring_.data() + static_cast<size_t>(row % ring_rows_) * static_cast<size_t>(samples_);
  }

  void EmitOutputRow() {
    for (int k = 0; k < rows_.taps; ++k) {
      tap_rows_[static_cast<size_t>(k)] =
          RingRow(rows_.index[rows_.Offset(next_output_) + static_cast<size_t>(k)]);
    }
    Filter::Vertical(tap_rows_.data(), rows_, next_output_, samples_, out_row_.data());
    writer_.WriteRow(next_output_, out_row_.data());
    ++next_output_;
  }

  const PreprocessParams& params_;
  const Placement& placement_;
  RowWriter& writer_;
  BandFormat format_;
  AxisTaps columns_;
  AxisTaps rows_;
  int samples_ = 0;
  int ring_rows_ = 1;
  int next_output_ = 0;
  std::vector<typename Filter::Intermediate> ring_;
  std::vector<typename Filter::Output> out_row_;
  std::vector<const typename Filter::Intermediate*> tap_rows_;
};

}  // namespace endcap
