#include "preprocess/cuda_image.h"

#include "common/fail.h"
#include "decode/jpeg_decoder_choice.h"
#include "preprocess/cuda_rows.h"
#include "preprocess/pixel_source.h"

namespace endcap {
CudaImage::CudaImage(const PreprocessParams& params, const ImageView& view,
                     const DecodeContext& decode_context)
    : view_(view) {
  if (view.format == PixelFormat::kEncoded) {
    OpenFile(params, decode_context);
  } else {
    OpenPixels(params, decode_context.device_id);
  }
}

JpegDecoder CudaImage::Choose(const PreprocessParams& params, const DecodeContext& decode_context,
                              const JpegPlaneReader& planes) const {
  JpegDecoderRequest request;
  request.mode = params.decode;
  request.requested = params.jpeg_decoder;
  request.nvjpeg_available = decode_context.nvjpeg;
  request.batch_size = decode_context.batch_size;
  request.pixels = int64_t{header_.width} * header_.height;
  request.file.has_planes = planes.layout().available;
  request.file.one_scan = !header_.progressive && header_.scan_count == 1;
  request.file.ended = EndsWithEndMarker(view_.planes[0].data, view_.size_bytes);
  return ChooseJpegDecoder(request);
}

void CudaImage::OpenFile(const PreprocessParams& params, const DecodeContext& decode_context) {
  if (view_.device != Device::kCpu) {
    Fail(ErrorCode::kUnsupported, "the encoded image is in GPU memory; give it in CPU memory");
  }
  header_ = ReadHeader(view_, params.limits);
  if (params.exif == ExifPolicy::kIgnore) header_.orientation = 1;
  orientation_ = header_.orientation;
  const int image_w = header_.oriented_width();
  const int image_h = header_.oriented_height();
  placement_ = Place(params, image_w, image_h);
  options_ = {params.channels(), DecodeScale(params, placement_, image_w, image_h),
              params.truncated};
  if (decode_context.nvjpeg) {
    const JpegPlaneReader full_size(view_, header_, {options_.channels, 1, params.truncated});
    if (Choose(params, decode_context, full_size) == JpegDecoder::kNvjpeg) {
      decoder_ = JpegDecoder::kNvjpeg;
      layout_ = full_size.layout();
      return;
    }
  }
  DecodeWithoutNvjpeg(params);
}

void CudaImage::DecodeWithoutNvjpeg(const PreprocessParams& params) {
  if (params.jpeg_decoder != JpegDecoder::kCpu) planes_.emplace(view_, header_, options_);
  if (planes_ && planes_->layout().available) {
    layout_ = planes_->layout();
    decoder_ = JpegDecoder::kHybrid;
    staged_bytes_ = layout_.size_bytes;
    return;
  }
  planes_.reset();
  decoder_ = JpegDecoder::kCpu;
  format_ = DecodedFormat(header_, options_);
  row_stride_bytes_ = AlignedRow(format_.width, format_.channels);
  staged_bytes_ = row_stride_bytes_ * static_cast<size_t>(format_.height);
}

void CudaImage::OpenPixels(const PreprocessParams& params, int device_id) {
  CheckPixels(view_, params.limits);
  header_.width = view_.width;
  header_.height = view_.height;
  placement_ = Place(params, view_.width, view_.height);
  if (view_.device == Device::kCuda && view_.device_id != device_id) {
    FailArgument("the pixels are on device cuda:", view_.device_id,
                 "; give memory of cuda:", device_id);
  }
  pixels_.emplace(view_);
  staged_bytes_ = pixels_->staged_bytes();
}

Geometry CudaImage::MakeGeometry(int source_index) const noexcept {
  return endcap::MakeGeometry(placement_, header_.oriented_width(), header_.oriented_height(),
                              orientation_, source_index);
}

int64_t CudaImage::Fill(uint8_t* staged) {
  if (planes_) return planes_->Decode(staged);
  if (pixels_) {
    pixels_->Copy(staged);
    return 0;
  }
  RowSink sink(staged, row_stride_bytes_);
  return DecodeToBands(view_, header_, options_, sink);
}

FusedImage CudaImage::Describe(const uint8_t* device) const {
  if (pixels_) return pixels_->Describe(device);
  FusedImage image;
  if (decoder_ == JpegDecoder::kHybrid || decoder_ == JpegDecoder::kNvjpeg) {
    image.source = FusedSource::kYcc;
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
  image.width = format_.width;
  image.height = format_.height;
  image.planes[0] = device;
  image.row_stride_bytes[0] = static_cast<int64_t>(row_stride_bytes_);
  image.source = RowSource(format_.channels);
  return image;
}

}  // namespace endcap
