#include "preprocess/cuda_roi_image.h"

#include <cstring>

#include "common/fail.h"
#include "preprocess/cuda_pixels.h"
#include "preprocess/cuda_rows.h"
#include "preprocess/image_to_tensor.h"
#include "preprocess/pixel_source.h"
#include "preprocess/placement.h"
#include "preprocess/yuv_planes.h"

namespace endcap {
namespace {

// All give the same bytes.
Implementation BestImplementation() {
  return SimdTarget().empty() ? Implementation::kScalar : Implementation::kSimd;
}

ImageHeader DeviceHeader(const PreprocessParams& params, const ImageView& image, int device_id) {
  if (image.format == PixelFormat::kEncoded) {
    Fail(ErrorCode::kUnsupported, "the encoded image is in GPU memory; give it in CPU memory");
  }
  if (IsYuv(image.format)) {
    Fail(ErrorCode::kUnsupported,
         "regions of YUV in GPU memory are not cut out; give it in CPU memory, or RGB");
  }
  CheckPixels(image, params.limits);
  if (image.device_id != device_id) {
    FailArgument("the pixels are on device cuda:", image.device_id,
                 "; give memory of cuda:", device_id);
  }
  ImageHeader header;
  header.width = image.width;
  header.height = image.height;
  return header;
}

}  // namespace

CudaRoiImage::CudaRoiImage(const PreprocessParams& params, const RoiImage& image, int device_id,
                           RoiItem& item)
    : params_(&params), image_(image) {
  const bool is_on_device = image.image.device == Device::kCuda;
  header_ = is_on_device ? DeviceHeader(params, image.image, device_id)
                         : ReadImageHeader(params, image.image);
  targets_ = MakeRoiTargets(params, image, 0, header_, item.rois);
  if (targets_.empty()) return;
  window_ = BoundingRect(targets_);
  if (is_on_device) return;
  channels_ = image.image.format == PixelFormat::kEncoded
                  ? DecodedFormat(header_, {params.channels(), 1}).channels
                  : params.channels();
  row_stride_bytes_ = AlignedRow(window_.width, channels_);
  staged_bytes_ = row_stride_bytes_ * static_cast<size_t>(window_.height);
}

void CudaRoiImage::Fill(uint8_t* staged, RoiItem& item) const {
  if (staged_bytes_ == 0) return;
  RowSink sink(staged, row_stride_bytes_);
  if (image_.image.format != PixelFormat::kEncoded) {
    return PixelsToBands(BestImplementation(), image_.image, window_, channels_, sink);
  }
  const DecodeOptions options{params_->channels(), 1, params_->truncated};
  const PixelBuffer oriented =
      DecodeWindow(image_.image, header_, options, header_.orientation, window_, item.decode_ns);
  sink.Begin(oriented.format);
  sink.Consume({oriented.pixels.data(), ptrdiff_t{window_.width} * channels_, 0, window_.height});
  item.decoder = JpegDecoder::kCpu;
}

// The window.
FusedImage CudaRoiImage::Describe(const uint8_t* device) const {
  if (image_.image.device == Device::kCuda) {
    FusedImage image = CudaPixels(image_.image).Describe(nullptr);
    const ptrdiff_t pixel = image_.image.format == PixelFormat::kGray ? 1 : 3;
    image.planes[0] += image.row_stride_bytes[0] * window_.y + pixel * window_.x;
    return image;
  }
  FusedImage image;
  image.source = RowSource(channels_);
  image.planes[0] = device;
  image.row_stride_bytes[0] = static_cast<int64_t>(row_stride_bytes_);
  return image;
}

void CudaRoiImage::AddTo(FusedPlan& plan, const uint8_t* device) const {
  const FusedImage window = targets_.empty() ? FusedImage{} : Describe(device);
  const ptrdiff_t pixel = window.source == FusedSource::kGray ? 1 : 3;
  auto good = targets_.begin();
  for (const PreprocessOutput& output : image_.outputs) {
    const bool is_good = good != targets_.end() && good->output == &output;
    if (output.image.data == nullptr) {
      if (is_good) ++good;
      continue;
    }
    if (!is_good) {
      plan.AddBlank(output.image.data);
      continue;
    }
    const PixelRect& rect = good++->rect;
    FusedImage region = window;
    region.width = rect.width;
    region.height = rect.height;
    region.planes[0] +=
        window.row_stride_bytes[0] * (rect.y - window_.y) + pixel * (rect.x - window_.x);
    plan.Add(region, Place(*params_, rect.width, rect.height), 1, output.image.data);
  }
}

}  // namespace endcap
