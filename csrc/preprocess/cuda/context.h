#pragma once

#include <list>
#include <memory>
#include <mutex>

#include "cuda_runtime/runtime.h"
#include "preprocess/cuda/fused_plan.h"
#include "preprocess/cuda/nvjpeg_source.h"

namespace endcap {

// Memory of one batch, reused by the next one, and the events after which it may be used again.
class CudaPreprocessContext {
 public:
  CudaPreprocessContext(const PreprocessParams& params, int device_id);
  // Waits for all that was begun, also when a call failed.
  ~CudaPreprocessContext();
  CudaPreprocessContext(const CudaPreprocessContext&) = delete;
  CudaPreprocessContext& operator=(const CudaPreprocessContext&) = delete;

  // Waits until pinned memory may be written: the copies of the batch before are done. Device
  // memory is written stream-ordered on upload_stream, after the kernel of the batch before.
  void Begin();

  // Memory for images: pinned, and on the device, where the first `host_bytes` are uploaded. Throws
  // kOutOfMemory, kCuda.
  void ReserveImages(size_t host_bytes, size_t device_bytes);
  uint8_t* host_images() const noexcept { return host_images_.data(); }
  uint8_t* device_images() const noexcept { return device_images_.data(); }
  // Uploads a part of the images. From any thread.
  void Upload(size_t offset, size_t bytes) const;

  // Made when it is first asked for. Throws as its constructor.
  NvjpegSource& nvjpeg();
  // Waits until nothing uses the images' device memory, as nvJPEG asks. After ReserveImages.
  void WaitForImages() const { upload_stream_.Wait(); }

  FusedPlan& plan() noexcept { return plan_; }
  // Uploads the plan and launches it on `stream`, after all that was uploaded.
  void Launch(void* stream);

 private:
  int device_id_;
  PinnedBuffer host_images_;
  PinnedBuffer host_block_;
  DeviceBuffer device_images_;
  DeviceBuffer device_block_;
  CudaStream upload_stream_;
  CudaEvent uploaded_;
  CudaEvent done_;
  FusedPlan plan_;
  std::unique_ptr<NvjpegSource> nvjpeg_;
};

// Contexts for batches in flight at the same time. Thread-safe.
class CudaContextPool {
 public:
  CudaContextPool(const PreprocessParams& params, int device_id)
      : params_(params), device_id_(device_id) {}

  // The context that has been idle for longest, or a new one where none is idle. There are at least
  // two, so that the copies of one batch overlap with the kernel of the one before.
  std::unique_ptr<CudaPreprocessContext> Take();
  // After a batch that went well. A context that met an error is dropped instead.
  void Return(std::unique_ptr<CudaPreprocessContext> context);

 private:
  PreprocessParams params_;
  int device_id_;
  std::mutex mutex_;
  std::list<std::unique_ptr<CudaPreprocessContext>> idle_;
  int made_ = 0;
};

}  // namespace endcap
