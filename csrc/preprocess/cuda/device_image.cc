#include "preprocess/cuda/device_image.h"

#include <cstring>
#include <utility>

#include "common/fail.h"
#include "common/steady_clock.h"
#include "decode/bands.h"
#include "decode/planes.h"
#include "preprocess/image_to_tensor.h"
#include "preprocess/pixels/image_source.h"
#include "preprocess/pixels/yuv_planes.h"
#include "preprocess/preprocess_output.h"

namespace endcap {
namespace {

// Copies bands to rows of `row_stride_bytes`.
class RowSink : public BandSink {
 public:
  RowSink(uint8_t* rows, size_t row_stride_bytes)
      : rows_(rows), row_stride_bytes_(row_stride_bytes) {}

  void Begin(const BandFormat& format) override { format_ = format; }
  void Consume(const RowBand& band) override {
    const size_t bytes = static_cast<size_t>(format_.width) * static_cast<size_t>(format_.channels);
    for (int i = 0; i < band.row_count; ++i) {
      std::memcpy(rows_ + row_stride_bytes_ * static_cast<size_t>(band.first_row + i),
                  band.data + band.row_stride_bytes * i, bytes);
    }
  }
  int EndRow() const override { return format_.height; }

 private:
  uint8_t* rows_;
  size_t row_stride_bytes_;
  BandFormat format_;
};

}  // namespace

DeviceImage::DeviceImage(const PreprocessParams& params, const PreprocessInput& input,
                         const DecodeContext& context, PreprocessItem& item)
    : params_(&params), input_(input), wants_tensors_(WantsTensors(input)) {
  const ImageView& image = input.image;
  if (image.format == PixelFormat::kEncoded && image.device != Device::kCpu) {
    Fail(ErrorCode::kUnsupported, "the encoded image is in GPU memory; give it in CPU memory");
  }
  if (input.rois) {
    OpenRegions(context.device_id, item);
  } else if (image.format == PixelFormat::kEncoded) {
    OpenFile(context);
  } else {
    OpenPixels(context.device_id);
  }
}

bool DeviceImage::TakesNvjpeg(const DecodeContext& context, const JpegPlaneReader& planes) const {
  JpegDecoderRequest request;
  request.mode = params_->decode;
  request.requested = params_->jpeg_decoder;
  request.nvjpeg_available = context.nvjpeg;
  request.batch_size = context.batch_size;
  request.pixels = int64_t{header_.width} * header_.height;
  request.file.has_planes = planes.layout().available;
  request.file.one_scan = !header_.progressive && header_.scan_count == 1;
  request.file.ended = EndsWithEndMarker(input_.image.planes[0].data, input_.image.size_bytes);
  return ChooseJpegDecoder(request) == JpegDecoder::kNvjpeg;
}

void DeviceImage::OpenFile(const DecodeContext& context) {
  header_ = ReadImageHeader(*params_, input_.image);
  const int image_w = header_.oriented_width();
  const int image_h = header_.oriented_height();
  placement_ = Place(*params_, image_w, image_h);
  options_ = params_->decode_options(params_->channels(),
                                     DecodedEighths(*params_, placement_, image_w, image_h));
  if (!wants_tensors_) return;
  if (context.nvjpeg && header_.format == FileFormat::kJpeg) {
    const JpegPlaneReader full_size(input_.image, header_,
                                    params_->decode_options(options_.channels));
    if (TakesNvjpeg(context, full_size)) {
      decoder_ = JpegDecoder::kNvjpeg;
      layout_ = full_size.layout();
      return;
    }
  }
  DecodeWithoutNvjpeg();
}

void DeviceImage::DecodeWithoutNvjpeg() {
  const bool may_have_planes = header_.format == FileFormat::kJpeg;
  if (may_have_planes && params_->jpeg_decoder != JpegDecoder::kCpu) {
    planes_.emplace(input_.image, header_, options_);
  }
  if (planes_ && planes_->layout().available) {
    layout_ = planes_->layout();
    decoder_ = JpegDecoder::kHybrid;
    staged_bytes_ = layout_.size_bytes;
    return;
  }
  planes_.reset();
  decoder_ = JpegDecoder::kCpu;
  StageRows(DecodedFormat(header_, options_));
}

void DeviceImage::StageRows(const BandFormat& format) {
  format_ = format;
  // Rows begin where wide loads are aligned.
  row_stride_bytes_ = RoundUp(
      static_cast<size_t>(format.width) * static_cast<size_t>(format.channels), kPlaneRowAlignment);
  staged_bytes_ = row_stride_bytes_ * static_cast<size_t>(format.height);
}

// Of pixels, which are checked.
void DeviceImage::ReadSize(int device_id) {
  const ImageView& image = input_.image;
  CheckPixels(image, params_->limits);
  if (image.device == Device::kCuda && image.device_id != device_id) {
    FailArgument("the pixels are on device cuda:", image.device_id,
                 "; give memory of cuda:", device_id);
  }
  header_.width = image.width;
  header_.height = image.height;
}

void DeviceImage::OpenPixels(int device_id) {
  const ImageView& image = input_.image;
  ReadSize(device_id);
  placement_ = Place(*params_, image.width, image.height);
  if (!wants_tensors_) return;
  pixels_.emplace(image);
  staged_bytes_ = pixels_->staged_bytes();
}

void DeviceImage::OpenRegions(int device_id, PreprocessItem& item) {
  const ImageView& image = input_.image;
  const bool is_on_device = image.device == Device::kCuda;
  if (!is_on_device) {
    header_ = ReadImageHeader(*params_, image);
  } else {
    if (IsYuv(image.format)) {
      Fail(ErrorCode::kUnsupported,
           "regions of YUV in GPU memory are not cut out; give it in CPU memory, or RGB");
    }
    ReadSize(device_id);
  }
  targets_ = MakeRoiTargets(*params_, input_, 0, header_, item.rois);
  if (targets_.empty()) return;
  window_ = BoundingRect(targets_);
  options_ = params_->decode_options(params_->channels());
  if (is_on_device || !wants_tensors_) return;
  const int channels = image.format == PixelFormat::kEncoded
                           ? DecodedFormat(header_, options_).channels
                           : params_->channels();
  StageRows({window_.width, window_.height, channels});
}

void DeviceImage::Fill(uint8_t* staged, PreprocessItem& item) {
  const ImageView& image = input_.image;
  if (pixels_) return pixels_->Copy(staged);
  if (input_.rois && targets_.empty()) return;
  if (image.format != PixelFormat::kEncoded) {
    if (staged_bytes_ == 0) return;
    RowSink sink(staged, row_stride_bytes_);
    // Both give the same bytes.
    const auto best = SimdTarget().empty() ? Implementation::kScalar : Implementation::kSimd;
    return PixelsToBands(best, image, window_, format_.channels, sink);
  }
  item.start_ns = SteadyNowNs();
  DecodeReport report;
  if (!wants_tensors_) {
    report = input_.rois ? CheckDecodes(image, header_, options_, header_.orientation, window_)
                         : CheckDecodes(image, header_, options_);
    decoder_ = JpegDecoder::kCpu;
  } else if (planes_) {
    report = planes_->Decode(staged);
  } else if (!input_.rois) {
    RowSink sink(staged, row_stride_bytes_);
    report = DecodeToBands(image, header_, options_, sink);
  } else {
    RowSink sink(staged, row_stride_bytes_);
    const PixelBuffer oriented =
        DecodeWindow(image, header_, options_, header_.orientation, window_, report);
    sink.Begin(oriented.format);
    sink.Consume(
        {oriented.pixels.data(), ptrdiff_t{window_.width} * format_.channels, 0, window_.height});
    decoder_ = JpegDecoder::kCpu;
  }
  item.decoder = decoder_;
  item.decode_ns = report.decode_ns;
  item.damage = std::move(report.damage);
}

FusedImage DeviceImage::DescribePlanes(const uint8_t* device) const {
  FusedImage image;
  image.source =
      layout_.upsampling == ChromaUpsampling::kGray ? FusedSource::kGray : FusedSource::kYuv;
  image.yuv = MakeYuvCoefficients(YuvMatrix::kBt601, YuvRange::kFull);
  image.upsampling = layout_.upsampling;
  image.width = layout_.width;
  image.height = layout_.height;
  for (size_t i = 0; i < static_cast<size_t>(layout_.plane_count); ++i) {
    image.planes[i] = device + layout_.planes[i].offset_bytes;
    image.row_stride_bytes[i] = static_cast<int64_t>(layout_.planes[i].row_stride_bytes);
  }
  image.chroma_width = layout_.planes[1].width;
  image.chroma_height = layout_.planes[1].height;
  return image;
}

// What is staged: the whole image, or the window of the regions.
FusedImage DeviceImage::Describe(const uint8_t* device) const {
  if (pixels_) return pixels_->Describe(device);
  if (decoder_ == JpegDecoder::kHybrid || decoder_ == JpegDecoder::kNvjpeg) {
    return DescribePlanes(device);
  }
  if (input_.image.device == Device::kCuda) {
    FusedImage image = DevicePixels(input_.image).Describe(nullptr);
    const ptrdiff_t pixel = input_.image.format == PixelFormat::kGray ? 1 : 3;
    image.planes[0] += image.row_stride_bytes[0] * window_.y + pixel * window_.x;
    return image;
  }
  FusedImage image;
  image.width = format_.width;
  image.height = format_.height;
  image.planes[0] = device;
  image.row_stride_bytes[0] = static_cast<int64_t>(row_stride_bytes_);
  image.source = format_.channels == 1 ? FusedSource::kGray : FusedSource::kRgb;
  return image;
}

void DeviceImage::AddTo(FusedPlan& plan, const uint8_t* device) const {
  if (!wants_tensors_) return;
  if (input_.rois) {
    AddRegions(plan, targets_.empty() ? FusedImage{} : Describe(device));
    return;
  }
  plan.Add(Describe(device), placement_, header_.orientation, input_.outputs[0].image.data);
}

void DeviceImage::AddRegions(FusedPlan& plan, const FusedImage& rows) const {
  const ptrdiff_t pixel = rows.source == FusedSource::kGray ? 1 : 3;
  auto good = targets_.begin();
  for (const PreprocessOutput& output : input_.outputs) {
    if (good == targets_.end() || good->output != &output) {
      plan.AddBlank(output.image.data);
      continue;
    }
    const PixelRect& rect = good++->rect;
    FusedImage region = rows;
    region.width = rect.width;
    region.height = rect.height;
    region.planes[0] +=
        rows.row_stride_bytes[0] * (rect.y - window_.y) + pixel * (rect.x - window_.x);
    plan.Add(region, Place(*params_, rect.width, rect.height), 1, output.image.data);
  }
}

void DeviceImage::WriteWholeGeometry() const {
  if (input_.rois) return;
  const PreprocessOutput& output = input_.outputs[0];
  const PixelRect whole = {0, 0, header_.oriented_width(), header_.oriented_height()};
  WriteGeometry(output, MakeGeometry(placement_, whole, header_, output.source_index));
}

}  // namespace endcap
