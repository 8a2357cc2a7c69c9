#include <cstring>

#include "decode/planes.h"
#include "preprocess/cuda/device_image.h"
#include "preprocess/pixels/yuv_planes.h"

namespace endcap {
namespace {

FusedSource ToFusedSource(PixelFormat format) {
  if (IsYuv(format)) return FusedSource::kYuv;
  if (format == PixelFormat::kGray) return FusedSource::kGray;
  return format == PixelFormat::kBgr ? FusedSource::kBgr : FusedSource::kRgb;
}

}  // namespace

DevicePixels::DevicePixels(const ImageView& view) : view_(view) {
  const bool yuv = IsYuv(view.format);
  const size_t channels = view.format == PixelFormat::kGray ? 1 : 3;
  plane_count_ = yuv ? static_cast<size_t>(YuvPlaneCount(view.format)) : 1;
  if (view.device == Device::kCuda) return;
  for (size_t i = 0; i < plane_count_; ++i) {
    const YuvPlaneSize size =
        yuv ? ComputeYuvPlaneSize(view, static_cast<int>(i))
            : YuvPlaneSize{channels * static_cast<size_t>(view.width), view.height};
    // Rows begin where wide loads are aligned.
    const size_t stride = RoundUp(size.row_bytes, kPlaneRowAlignment);
    planes_[i] = {staged_bytes_, stride, size.row_bytes, size.rows};
    staged_bytes_ += RoundUp(stride * static_cast<size_t>(size.rows), kPlaneAlignment);
  }
}

void DevicePixels::Copy(uint8_t* staged) const {
  if (staged_bytes_ == 0) return;
  for (size_t i = 0; i < plane_count_; ++i) {
    const StagedPlane& plane = planes_[i];
    for (int y = 0; y < plane.rows; ++y) {
      std::memcpy(staged + plane.offset + plane.row_stride_bytes * static_cast<size_t>(y),
                  view_.planes[i].data + view_.planes[i].row_stride_bytes * y, plane.row_bytes);
    }
  }
}

FusedImage DevicePixels::Describe(const uint8_t* device) const {
  ImageView view = view_;
  for (size_t i = 0; i < plane_count_ && staged_bytes_ != 0; ++i) {
    view.planes[i] = {device + planes_[i].offset,
                      static_cast<ptrdiff_t>(planes_[i].row_stride_bytes)};
  }
  FusedImage image;
  image.source = ToFusedSource(view.format);
  image.width = view.width;
  image.height = view.height;
  image.planes[0] = view.planes[0].data;
  image.row_stride_bytes[0] = view.planes[0].row_stride_bytes;
  if (!IsYuv(view.format)) return image;
  const YuvPlanes planes = MakeYuvPlanes(view);
  for (size_t i = 0; i < planes.chroma.size(); ++i) {
    image.planes[i + 1] = planes.chroma[i].data;
    image.row_stride_bytes[i + 1] = planes.chroma[i].row_stride;
  }
  image.upsampling = planes.upsampling;
  image.chroma_width = planes.chroma[0].width;
  image.chroma_height = planes.chroma[0].height;
  image.chroma_step = planes.chroma[0].sample_step;
  image.yuv = MakeYuvCoefficients(view.matrix, view.range);
  return image;
}

}  // namespace endcap
