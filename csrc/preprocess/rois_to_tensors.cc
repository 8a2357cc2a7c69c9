
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

// The good regions; a bad one gets a blank tensor.
std::vector<RoiTarget> GoodRois(const PreprocessParams& params, const PreprocessInput& input,
                                size_t first, const ImageHeader& header,
                                std::span<ItemStatus> statuses) {
  std::vector<RoiTarget> targets = MakeRoiTargets(params, input, first, header, statuses);
  for (size_t i = 0; i < statuses.size(); ++i) {
    if (!statuses[i].ok()) WriteBlank(input.outputs[first + i]);
  }
  return targets;
}

void CutPixels(Implementation implementation, const PreprocessParams& params,
               const ImageView& image, const std::vector<RoiTarget>& targets) {
  for (const auto& [rect, output] : targets) {
    TensorSink sink(implementation, params, rect.width, rect.height, OrientationTransform{},
                    output->image);
    PixelsToBands(implementation, image, rect, RowChannels(implementation, params), sink.resizer());
    sink.Finish();
  }
}

DecodeReport CutRows(Implementation implementation, const PreprocessParams& params,
                     const ImageView& image, const ImageHeader& header,
                     std::vector<RoiTarget> targets) {
  RoiBands bands(implementation, params, std::move(targets));
  const DecodeOptions options = params.decode_options(RowChannels(implementation, params));
  DecodeReport report = DecodeToBands(image, header, options, bands);
  if (!bands.Complete()) Fail(ErrorCode::kInternal, "a region's tensor was not written");
  return report;
}

// A file that EXIF rotates: the part that the regions need is decoded and oriented first.
DecodeReport CutOriented(Implementation implementation, const PreprocessParams& params,
                         const ImageView& image, const ImageHeader& header,
                         const std::vector<RoiTarget>& targets) {
  const PixelRect window = BoundingRect(targets);
  DecodeReport report;
  const DecodeOptions options = params.decode_options(RowChannels(implementation, params));
  const PixelBuffer oriented =
      DecodeWindow(image, header, options, header.orientation, window, report);
  const int channels = oriented.format.channels;
  const ptrdiff_t row_bytes = ptrdiff_t{window.width} * channels;
  for (const auto& [rect, output] : targets) {
    TensorSink sink(implementation, params, rect.width, rect.height, OrientationTransform{},
                    output->image);
    sink.Take({rect.width, rect.height, channels},
              oriented.pixels.data() + row_bytes * (rect.y - window.y) +
                  ptrdiff_t{rect.x - window.x} * channels,
              row_bytes);
  }
  return report;
}

// Reads what the regions need of the file, where no tensors are wanted.
JpegDecoder CheckTargets(const PreprocessParams& params, const ImageView& image,
                         const ImageHeader& header, const std::vector<RoiTarget>& targets,
                         DecodeReport& report) {
  if (image.format != PixelFormat::kEncoded) return JpegDecoder::kAuto;
  report = CheckDecodes(image, header, params.decode_options(params.channels()), header.orientation,
                        BoundingRect(targets));
  return JpegDecoder::kCpu;
}

}  // namespace

JpegDecoder RoisToTensors(const PreprocessParams& params, const PreprocessInput& input,
                          size_t first, std::span<ItemStatus> statuses, DecodeReport& report) {
  const Implementation implementation = SelectImplementation(Stage::kPreprocess);
  const ImageHeader header = ReadImageHeader(params, input.image);
  std::vector<RoiTarget> targets = GoodRois(params, input, first, header, statuses);
  if (targets.empty()) return JpegDecoder::kAuto;
  if (targets.front().output->image.data == nullptr) {
    return CheckTargets(params, input.image, header, targets, report);
  }
  if (input.image.format != PixelFormat::kEncoded) {
    CutPixels(implementation, params, input.image, targets);
    return JpegDecoder::kAuto;
  }
  if (header.orientation != 1) {
    report = CutOriented(implementation, params, input.image, header, targets);
  } else {
    report = CutRows(implementation, params, input.image, header, std::move(targets));
  }
  return JpegDecoder::kCpu;
}

}  // namespace endcap
