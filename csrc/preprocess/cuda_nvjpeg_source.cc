#include "preprocess/cuda_nvjpeg_source.h"

#include "cuda/runtime.h"

namespace endcap {

CudaNvjpegSource::CudaNvjpegSource(int device_id) : device_id_(device_id) {
  CheckCuda(Cuda().nvjpeg_open(device_id, &decoder_));
}

CudaNvjpegSource::~CudaNvjpegSource() { (void)CudaInUse().nvjpeg_close(device_id_, decoder_); }

void CudaNvjpegSource::Add(const ImageView& file, const JpegPlaneLayout& layout,
                           uint8_t* device_block) {
  NvjpegImage image;
  image.bytes = file.planes[0].data;
  image.size_bytes = file.size_bytes;
  image.plane_count = layout.plane_count;
  for (size_t i = 0; i < static_cast<size_t>(layout.plane_count); ++i) {
    const JpegPlane& plane = layout.planes[i];
    image.planes[i] = {device_block + plane.offset_bytes, plane.row_stride_bytes, plane.width,
                       plane.height};
  }
  images_.push_back(image);
}

void CudaNvjpegSource::Decode(void* stream) {
  NvjpegDecodeBatch batch{images_.data(), static_cast<int32_t>(images_.size())};
  CheckCuda(Cuda().nvjpeg_decode(device_id_, decoder_, &batch, stream));
}

ItemStatus CudaNvjpegSource::StatusOf(size_t index) const {
  const NvjpegImage& image = images_[index];
  return {static_cast<ErrorCode>(image.status), image.message == nullptr ? "" : image.message};
}

}  // namespace endcap
