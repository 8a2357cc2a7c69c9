#include "preprocess/cuda/nvjpeg_source.h"

#include <cstring>

#include "cuda_library/kernel_table.h"

namespace endcap {

NvjpegSource::NvjpegSource(int device_id)
    : device_id_(device_id), staged_(device_id), stream_(device_id), decoded_(device_id) {
  CheckCuda(Kernels().nvjpeg_open(device_id, &decoder_));
}

NvjpegSource::~NvjpegSource() {
  stream_.WaitUnlessBroken();
  (void)KernelsInUse().nvjpeg_close(device_id_, decoder_);
}

void NvjpegSource::Clear() noexcept {
  images_.clear();
  offsets_.clear();
  staged_bytes_ = 0;
}

void NvjpegSource::Add(const ImageView& file, const JpegPlaneLayout& layout) {
  NvjpegImage& image = images_.emplace_back();
  image.bytes = file.planes[0].data;
  image.size_bytes = file.size_bytes;
  image.plane_count = layout.plane_count;
  for (size_t i = 0; i < static_cast<size_t>(layout.plane_count); ++i) {
    image.planes[i].width = layout.planes[i].width;
    image.planes[i].height = layout.planes[i].height;
  }
  offsets_.push_back(staged_bytes_);
  staged_bytes_ += file.size_bytes;
}

void NvjpegSource::Reserve() { staged_.Reserve(staged_bytes_); }

ItemStatus NvjpegSource::Stage(size_t index) {
  NvjpegImage& image = images_[index];
  uint8_t* copy = staged_.data() + offsets_[index];
  std::memcpy(copy, image.bytes, image.size_bytes);
  image.bytes = copy;
  CheckCuda(Kernels().nvjpeg_parse(device_id_, decoder_, &image));
  return GetStatus(index);
}

void NvjpegSource::SetPlanes(size_t index, const JpegPlaneLayout& layout, uint8_t* device_block) {
  NvjpegImage& image = images_[index];
  for (size_t i = 0; i < static_cast<size_t>(layout.plane_count); ++i) {
    image.planes[i].data = device_block + layout.planes[i].offset_bytes;
    image.planes[i].row_stride_bytes = layout.planes[i].row_stride_bytes;
  }
}

void NvjpegSource::Decode() {
  NvjpegDecodeBatch batch{images_.data(), static_cast<int32_t>(images_.size())};
  CheckCuda(Kernels().nvjpeg_decode(device_id_, decoder_, &batch, stream_.get()));
  decoded_.Record(stream_.get());
}

ItemStatus NvjpegSource::GetStatus(size_t index) const {
  const NvjpegImage& image = images_[index];
  return {static_cast<ErrorCode>(image.status), image.message == nullptr ? "" : image.message};
}

}  // namespace endcap
