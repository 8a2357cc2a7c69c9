#pragma once

#include <optional>
#include <span>
#include <vector>

#include "endcap/preprocess.h"
#include "endcap/thread_pool.h"
#include "preprocess/cuda/context.h"
#include "preprocess/cuda/device_image.h"

namespace endcap {

// Uploads one batch: Open, Upload, Finish, in this order. Failures of single images
// become their status; kCuda and kOutOfMemory of the device are thrown.
class DeviceBatch {
 public:
  DeviceBatch(const PreprocessParams& params, const DeviceImage::DecodeContext& decode_context,
              ThreadPool& pool, std::span<const PreprocessInput> inputs);

  // Reads headers and places images and regions.
  void Open();

  // nvJPEG is asked about the files that it is to decode; `auto` lets CPU threads decode those that
  // the GPU's JPEG engine does not take. Each image is uploaded as soon as it is decoded; meanwhile
  // the plan is made, and nvJPEG decodes its files.
  void Upload(CudaPreprocessContext& context);

  // Writes geometry and status; the tensors of images that failed become blank.
  std::vector<PreprocessItem> Finish(FusedPlan& plan);

  // The images that the JPEG engine accepted and then failed to decode.
  const std::vector<size_t>& refused() const noexcept { return refused_; }

 private:
  template <typename Call>
  bool Try(size_t image, Call call) noexcept;
  void StageForNvjpeg(CudaPreprocessContext& context);
  void FallBackFromNvjpeg(size_t index, ItemStatus why) noexcept;
  void Reserve(CudaPreprocessContext& context);
  void DecodeByNvjpeg(CudaPreprocessContext& context);
  void Plan(CudaPreprocessContext& context);
  void UploadOne(size_t index, CudaPreprocessContext& context);
  void Blank(size_t index, FusedPlan& plan);

  const PreprocessParams& params_;
  DeviceImage::DecodeContext decode_context_;
  ThreadPool& pool_;
  std::span<const PreprocessInput> inputs_;
  int count_;
  std::vector<PreprocessItem> items_;
  std::vector<std::optional<DeviceImage>> images_;
  std::vector<size_t> offsets_;       // into the images' device memory
  std::vector<size_t> plan_begins_;   // number of an input's first tensor in the plan
  std::vector<size_t> nvjpeg_files_;  // in the order of context.nvjpeg()
  std::vector<size_t> refused_;
};

}  // namespace endcap
