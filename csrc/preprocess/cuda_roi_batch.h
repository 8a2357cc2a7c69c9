#pragma once

#include <optional>
#include <span>
#include <vector>

#include "endcap/preprocess.h"
#include "endcap/thread_pool.h"
#include "preprocess/cuda_context.h"
#include "preprocess/cuda_roi_image.h"

namespace endcap {

// Images with regions on their way to the GPU: Open, Upload, Finish, in this order. Failures of
// single images and regions become their status; kCuda and kOutOfMemory of the device are thrown.
class CudaRoiBatch {
 public:
  CudaRoiBatch(const PreprocessParams& params, int device_id, ThreadPool& pool,
               std::span<const RoiImage> images);

  // Headers are read and regions placed.
  void Open();

  // Each image goes up as soon as it is decoded.
  void Upload(CudaPreprocessContext& context);

  // The plan of all tensors, and statuses; regions of images that failed become blank.
  std::vector<RoiItem> Finish(CudaPreprocessContext& context);

 private:
  template <typename Call>
  void Try(size_t image, Call call) noexcept;

  const PreprocessParams& params_;
  int device_id_;
  ThreadPool& pool_;
  std::span<const RoiImage> views_;
  int count_;
  std::vector<RoiItem> items_;
  std::vector<std::optional<CudaRoiImage>> images_;
  std::vector<size_t> offsets_;  // into the images' memory
};

}  // namespace endcap
