#pragma once

#include <memory>
#include <vector>

#include "endcap/decode.h"
#include "endcap/implementation.h"
#include "endcap/preprocess.h"
#include "endcap/row_band.h"
#include "preprocess/roi_targets.h"
#include "preprocess/tensor_sink.h"

namespace endcap {

// Hands the rows of an oriented image, as they arrive, to all regions that they lie in. A region
// has its resizer from its first row to the last one that it needs, so memory is taken by regions
// that share a row only. Geometries are the caller's.
class RoiBands : public BandSink {
 public:
  // targets: at least one. `params`, and what they point to, must outlive the sink.
  RoiBands(Implementation implementation, const PreprocessParams& params,
           std::vector<RoiTarget> targets);

  void Begin(const BandFormat& format) override;
  void Consume(const RowBand& band) override;
  int EndRow() const override { return end_row_; }
  int NextRow(int row) const override;
  ColumnSpan Columns() const override { return columns_; }

  // Whether every tensor was written.
  bool Complete() const { return next_ == targets_.size() && open_.empty(); }

 private:
  struct OpenRoi {
    PixelRect rect;
    std::unique_ptr<TensorSink> sink;
  };

  void Open(const RoiTarget& target);
  void Feed(const OpenRoi& roi, const RowBand& band) const;

  Implementation implementation_;
  const PreprocessParams& params_;
  std::vector<RoiTarget> targets_;  // from the top down
  size_t next_ = 0;                 // the first that no row has reached
  std::vector<OpenRoi> open_;
  BandFormat format_;
  int end_row_ = 0;
  ColumnSpan columns_;
};

}  // namespace endcap
