#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "endcap/preprocess.h"

namespace endcap::c_api {

struct TensorSize {
  int height = 0;  // pixels
  int width = 0;
  bool operator==(const TensorSize&) const = default;
};

// What makes tensors of one size, in CPU memory or on a GPU.
class PreprocessEngine {
 public:
  // device: ENDCAP_CPU or the number of a GPU. Throws as Preprocessor and CudaPreprocessor.
  PreprocessEngine(const PreprocessParams& params, int32_t device, int threads);

  TensorSize size() const noexcept { return size_; }
  std::vector<PreprocessItem> Run(std::span<const ImageView> images,
                                  std::span<const PreprocessOutput> outputs, void* stream);
  // Throws kUnsupported on a GPU.
  RoiItem RunRois(const RoiImage& image);

 private:
  TensorSize size_;
  std::unique_ptr<Preprocessor> cpu_;
  std::unique_ptr<CudaPreprocessor> cuda_;
};

// The engines of one handle: that of its parameters, and those of the other sizes that were asked
// for last. Thread-safe.
class SizedEngines {
 public:
  // Most other sizes that are kept: each holds, on a GPU, memory for two batches.
  static constexpr size_t kKept = 8;

  SizedEngines(const PreprocessParams& params, int32_t device, int threads);

  const PreprocessParams& params() const noexcept { return params_; }
  int32_t device() const noexcept { return device_; }

  // The parameters with another size. Throws as Validate.
  PreprocessParams MakeParams(TensorSize size) const;
  std::shared_ptr<PreprocessEngine> Of(TensorSize size);

 private:
  PreprocessParams params_;
  int32_t device_;
  int threads_;
  std::shared_ptr<PreprocessEngine> own_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<PreprocessEngine>> recent_;  // the last is the one used last
};

}  // namespace endcap::c_api
