#pragma once

#include <cstddef>
#include <vector>

#include "decode/jpeg_plane_layout.h"
#include "decode/nvjpeg_batch.h"
#include "endcap/error.h"
#include "endcap/image_view.h"

namespace endcap {

// A decoder of nvJPEG's, and the files of one batch that it is given. For one batch at a time.
class CudaNvjpegSource {
 public:
  // Throws kCuda where nvJPEG cannot be found or does not work on the device; kOutOfMemory.
  explicit CudaNvjpegSource(int device_id);
  ~CudaNvjpegSource();
  CudaNvjpegSource(const CudaNvjpegSource&) = delete;
  CudaNvjpegSource& operator=(const CudaNvjpegSource&) = delete;

  void Clear() noexcept { images_.clear(); }
  // A file whose planes at full size go to `device_block`, as `layout` says.
  void Add(const ImageView& file, const JpegPlaneLayout& layout, uint8_t* device_block);
  size_t size() const noexcept { return images_.size(); }

  // Decodes the files that were added. The planes are there for what is enqueued on `stream`
  // afterwards; at the call nothing that is enqueued anywhere may still use their memory. The files
  // have been read on return. Throws kCuda and kOutOfMemory for what is not one file's fault.
  void Decode(void* stream);
  // What the file that was added as number `index` came to.
  ItemStatus StatusOf(size_t index) const;

 private:
  int device_id_;
  void* decoder_ = nullptr;
  std::vector<NvjpegImage> images_;
};

}  // namespace endcap
