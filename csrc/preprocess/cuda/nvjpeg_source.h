#pragma once

#include <cstddef>
#include <vector>

#include "cuda_runtime/runtime.h"
#include "decode/planes.h"
#include "endcap/error.h"
#include "endcap/image_view.h"

namespace endcap {

// A decoder of nvJPEG's, and the files of one batch that it decodes. For one batch at a time:
// Clear; Add, for each file; Reserve; Stage, for each file; SetPlanes, for each file that Stage
// accepted; Decode. Only Stage may be called from several threads at a time.
class NvjpegSource {
 public:
  // Throws kCuda where nvJPEG cannot be found or the device has no JPEG engine; kOutOfMemory.
  explicit NvjpegSource(int device_id);
  // Waits for the decoder's work.
  ~NvjpegSource();
  NvjpegSource(const NvjpegSource&) = delete;
  NvjpegSource& operator=(const NvjpegSource&) = delete;

  void Clear() noexcept;
  // A file whose planes at full size have the sizes of `layout`. Files are numbered from 0 in this
  // order. The bytes must stay until Stage.
  void Add(const ImageView& file, const JpegPlaneLayout& layout);

  // Pinned memory for copies of the files. The work of the batch before must be done. Throws
  // kOutOfMemory, kCuda.
  void Reserve();

  // Copies a file to pinned memory and asks whether the engine decodes it. The result is about the
  // copy, which the caller cannot change any more: the engine writes as much as the file says. Any
  // thread, each with other files. Throws kCuda and kOutOfMemory for what is not the file's fault.
  ItemStatus Stage(size_t index);

  // The device memory for the planes of a file that Stage accepted.
  void SetPlanes(size_t index, const JpegPlaneLayout& layout, uint8_t* device_block);

  // Decodes the files that Stage accepted. At the call nothing that is enqueued anywhere may still
  // use the planes' memory. Throws kCuda and kOutOfMemory for what is not one file's fault.
  void Decode();
  // Makes what is enqueued on `stream` from now on wait for the planes.
  void OrderBefore(void* stream) const { decoded_.OrderAfter(stream); }
  // The host waits for the planes.
  void Wait() const { decoded_.Wait(); }

  // The status of a file, as Stage and Decode left it.
  ItemStatus GetStatus(size_t index) const;

 private:
  int device_id_;
  PinnedBuffer staged_;
  size_t staged_bytes_ = 0;
  std::vector<NvjpegImage> images_;
  std::vector<size_t> offsets_;  // of the copies, into staged_
  // Separate, so that a wait for nvJPEG does not wait for uploads.
  CudaStream stream_;
  CudaEvent decoded_;
  void* decoder_ = nullptr;
};

}  // namespace endcap
