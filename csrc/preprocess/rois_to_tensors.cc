
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/fail.h"
#include "common/row_band.h"
#include "common/select_implementation.h"
#include "preprocess/image_to_tensor.h"
#include "preprocess/pixels/image_source.h"
#include "preprocess/preprocess_output.h"

namespace endcap {
namespace {

// Passes the rows of an oriented image, as they arrive, to all regions that they are in. A region
// has its resizer from its first row to the last one that it needs, so memory is taken by regions
// that share a row only. Geometries are the caller's.
class RoiBands : public BandSink {
 public:
  // targets: at least one, in the part of the image whose rows arrive. `params`, and what they
  // point to, must outlive the sink.
  RoiBands(Implementation implementation, const PreprocessParams& params,
           std::vector<RoiTarget> targets)
      : implementation_(implementation),
        params_(params),
        targets_(std::move(targets)),
        window_(BoundingRect(targets_)) {
    std::ranges::sort(targets_, {}, [](const RoiTarget& target) { return target.rect.y; });
  }

  void Begin(const BandFormat& format) override { format_ = format; }

  void Consume(const RowBand& band) override {
    const int end = band.first_row + band.row_count;
    std::erase_if(open_, [&](const OpenRoi& roi) { return Feed(roi, band); });
    for (; next_ < targets_.size() && targets_[next_].rect.y < end; ++next_) {
      OpenRoi roi = Open(targets_[next_]);
      if (!Feed(roi, band)) open_.push_back(std::move(roi));
    }
  }

  int EndRow() const override { return window_.bottom(); }

  int NextRow(int row) const override {
    int next = format_.height;
    if (next_ < targets_.size()) next = std::max(row, targets_[next_].rect.y);
    for (const OpenRoi& roi : open_) {
      if (next == row) break;
      const int inside = std::max(row - roi.rect.y, 0);
      next = std::min(next, roi.rect.y + roi.sink->resizer().NextRow(inside));
    }
    return next;
  }

  ColumnSpan Columns() const override { return {window_.x, window_.right()}; }

  // Whether every tensor was written.
  bool Complete() const { return next_ == targets_.size() && open_.empty(); }

 private:
  struct OpenRoi {
    PixelRect rect;
    std::unique_ptr<TensorSink> sink;
  };

  OpenRoi Open(const RoiTarget& target) const {
    const PixelRect& rect = target.rect;
    auto sink = std::make_unique<TensorSink>(implementation_, params_, rect.width, rect.height,
                                             OrientationTransform{}, target.output->image);
    sink->resizer().Begin({rect.width, rect.height, format_.channels});
    return {rect, std::move(sink)};
  }

  // Returns whether the region's tensor is done.
  bool Feed(const OpenRoi& roi, const RowBand& band) const {
    const int first = std::max(band.first_row, roi.rect.y);
    const int end = std::min(band.first_row + band.row_count, roi.rect.bottom());
    if (first >= end) return false;
    const uint8_t* pixels = band.data + band.row_stride_bytes * (first - band.first_row) +
                            ptrdiff_t{roi.rect.x} * format_.channels;
    roi.sink->resizer().Consume({pixels, band.row_stride_bytes, first - roi.rect.y, end - first});
    if (!roi.sink->resizer().Complete()) return false;
    roi.sink->Finish();
    return true;
  }

  Implementation implementation_;
  const PreprocessParams& params_;
  std::vector<RoiTarget> targets_;  // from the top down
  PixelRect window_;                // holds all of them
  size_t next_ = 0;                 // the first that no row has reached
  std::vector<OpenRoi> open_;
  BandFormat format_;
};

// The rectangle that holds all of `targets`, which become rectangles of it.
PixelRect MoveToWindow(std::vector<RoiTarget>& targets) {
  const PixelRect window = BoundingRect(targets);
  for (RoiTarget& target : targets) {
    target.rect.x -= window.x;
    target.rect.y -= window.y;
  }
  return window;
}

}  // namespace

JpegDecoder RoisToTensors(const PreprocessParams& params, const PreprocessInput& input,
                          size_t first, std::span<ItemStatus> statuses, DecodeReport& report,
                          Crew* crew) {
  const Implementation implementation = SelectImplementation(Stage::kPreprocess);
  const ImageHeader header = ReadImageHeader(params, input.image);
  std::vector<RoiTarget> targets = MakeRoiTargets(params, input, first, header, statuses);
  for (size_t i = 0; i < statuses.size(); ++i) {
    if (!statuses[i].ok()) WriteBlank(input.outputs[first + i]);
  }
  if (targets.empty()) return JpegDecoder::kAuto;
  const bool wants_tensors = targets.front().output->image.data != nullptr;
  const int channels = RowChannels(implementation, params);
  if (input.image.format != PixelFormat::kEncoded) {
    if (!wants_tensors) return JpegDecoder::kAuto;
    for (const auto& [rect, output] : targets) {
      TensorSink sink(implementation, params, rect.width, rect.height, OrientationTransform{},
                      output->image);
      PixelsToBands(implementation, input.image, rect, channels, sink.resizer());
      sink.Finish();
    }
    return JpegDecoder::kAuto;
  }
  if (!wants_tensors) {
    report = CheckDecodes(input.image, header, params.decode_options(params.channels()),
                          header.orientation, BoundingRect(targets));
    return JpegDecoder::kCpu;
  }
  const DecodeOptions options = params.decode_options(channels);
  // Of a file that EXIF rotates, the part that the regions need is decoded and oriented first.
  const bool rotates = header.orientation != 1;
  const PixelRect window = rotates ? MoveToWindow(targets) : PixelRect{};
  RoiBands bands(implementation, params, std::move(targets));
  if (rotates) {
    const PixelBuffer oriented =
        DecodeWindow(input.image, header, options, header.orientation, window, report);
    bands.Begin(oriented.format);
    bands.Consume({oriented.pixels.data(), ptrdiff_t{window.width} * oriented.format.channels, 0,
                   window.height});
  } else {
    report = DecodeToBands(input.image, header, options, bands, crew);
  }
  if (!bands.Complete()) Fail(ErrorCode::kInternal, "a region's tensor was not written");
  return JpegDecoder::kCpu;
}

}  // namespace endcap
