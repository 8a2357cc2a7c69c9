#include "preprocess/roi_bands.h"

#include <algorithm>
#include <utility>

namespace endcap {

RoiBands::RoiBands(Implementation implementation, const PreprocessParams& params,
                   std::vector<RoiTarget> targets)
    : implementation_(implementation), params_(params), targets_(std::move(targets)) {
  std::sort(targets_.begin(), targets_.end(),
            [](const RoiTarget& a, const RoiTarget& b) { return a.rect.y < b.rect.y; });
  const PixelRect window = BoundingRect(targets_);
  end_row_ = window.bottom();
  columns_ = {window.x, window.right()};
}

void RoiBands::Begin(const BandFormat& format) { format_ = format; }

void RoiBands::Consume(const RowBand& band) {
  const int end = band.first_row + band.row_count;
  while (next_ < targets_.size() && targets_[next_].rect.y < end) Open(targets_[next_++]);
  for (const OpenRoi& roi : open_) Feed(roi, band);
  std::erase_if(open_, [](const OpenRoi& roi) {
    if (!roi.sink->resizer().Complete()) return false;
    roi.sink->Finish();
    return true;
  });
}

int RoiBands::NextRow(int row) const {
  int next = format_.height;
  if (next_ < targets_.size()) next = std::max(row, targets_[next_].rect.y);
  for (const OpenRoi& roi : open_) {
    if (next == row) break;
    const int inside = std::max(row - roi.rect.y, 0);
    next = std::min(next, roi.rect.y + roi.sink->resizer().NextRow(inside));
  }
  return next;
}

void RoiBands::Open(const RoiTarget& target) {
  const PixelRect& rect = target.rect;
  auto sink = std::make_unique<TensorSink>(implementation_, params_, rect.width, rect.height,
                                           OrientationTransform{}, target.output->image);
  sink->resizer().Begin({rect.width, rect.height, format_.channels});
  open_.push_back({rect, std::move(sink)});
}

void RoiBands::Feed(const OpenRoi& roi, const RowBand& band) const {
  const int first = std::max(band.first_row, roi.rect.y);
  const int end = std::min(band.first_row + band.row_count, roi.rect.bottom());
  if (first >= end) return;
  const uint8_t* pixels = band.data + band.row_stride_bytes * (first - band.first_row) +
                          ptrdiff_t{roi.rect.x} * format_.channels;
  roi.sink->resizer().Consume({pixels, band.row_stride_bytes, first - roi.rect.y, end - first});
}

}  // namespace endcap
