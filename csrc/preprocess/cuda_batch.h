#pragma once

#include <optional>
#include <span>
#include <vector>

#include "endcap/preprocess.h"
#include "endcap/thread_pool.h"
#include "preprocess/cuda_context.h"
#include "preprocess/cuda_image.h"

namespace endcap {

class DeviceErrors;

// One batch of images on its way to the GPU: Open, Upload, Finish, in this order. Failures of
// single images become their status; kCuda and kOutOfMemory of the device are thrown.
class CudaBatch {
 public:
  CudaBatch(const PreprocessParams& params, const CudaImage::DecodeContext& decode_context,
            ThreadPool& pool, std::span<const ImageView> views,
            std::span<const PreprocessOutput> outputs);

  // Headers are read and images placed.
  void Open();

  // nvJPEG is asked about the files that it is to decode; `auto` lets CPU threads decode those that
  // the GPU's JPEG engine does not take. Each image is uploaded as soon as it is decoded; meanwhile
  // the plan is made, and nvJPEG decodes its files.
  void Upload(CudaPreprocessContext& context);

  // Geometry and status; images that failed become blank.
  std::vector<PreprocessItem> Finish(FusedPlan& plan);

  // The images that the JPEG engine accepted and then failed to decode.
  const std::vector<size_t>& refused() const noexcept { return refused_; }

 private:
  template <typename Call>
  bool Try(size_t image, Call call) noexcept;
  void StageForNvjpeg(CudaPreprocessContext& context);
  void LeaveNvjpeg(size_t index, ItemStatus why) noexcept;
  void Reserve(CudaPreprocessContext& context);
  void DecodeByNvjpeg(CudaPreprocessContext& context);
  void Plan(CudaPreprocessContext& context);
  void UploadOne(size_t index, CudaPreprocessContext& context, DeviceErrors& errors) noexcept;

  const PreprocessParams& params_;
  CudaImage::DecodeContext decode_context_;
  ThreadPool& pool_;
  std::span<const ImageView> views_;
  std::span<const PreprocessOutput> outputs_;
  int count_;
  std::vector<PreprocessItem> items_;
  std::vector<std::optional<CudaImage>> images_;
  std::vector<size_t> offsets_;       // into the images' device memory
  std::vector<size_t> nvjpeg_files_;  // in the order of context.nvjpeg()
  std::vector<size_t> refused_;
};

}  // namespace endcap
