#pragma once

#include <memory>
#include <span>
#include <vector>

#include "endcap/preprocess.h"

namespace endcap {

// Carries out the parameters of one Preprocessor on one device, which is chosen once, when the
// Preprocessor is made. Thread-safe.
class PreprocessDevice {
 public:
  PreprocessDevice() = default;
  virtual ~PreprocessDevice() = default;
  PreprocessDevice(const PreprocessDevice&) = delete;
  PreprocessDevice& operator=(const PreprocessDevice&) = delete;

  // Images worked on at the same time.
  virtual int threads() const noexcept = 0;

  // As Preprocessor::Run, for at least one input; the outputs are checked already.
  virtual std::vector<PreprocessItem> Run(std::span<const PreprocessInput> inputs,
                                          void* stream) = 0;
};

// Throws kUnsupported for a `jpeg_decoder` that needs a GPU.
std::unique_ptr<PreprocessDevice> MakeCpuPreprocess(const PreprocessParams& params, int threads);

// Throws kCuda when the device, or the JPEG decoder that `params` name, cannot be used.
std::unique_ptr<PreprocessDevice> MakeCudaPreprocess(const PreprocessParams& params, int device_id,
                                                     int threads);

}  // namespace endcap
