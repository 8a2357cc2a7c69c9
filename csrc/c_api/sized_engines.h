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

// The preprocessors of one handle: that of its parameters, and those of the other sizes that were
// asked for last. Thread-safe.
class SizedEngines {
 public:
  // Most other sizes that are kept: each holds, on a GPU, memory for two batches.
  static constexpr size_t kKept = 8;

  SizedEngines(const PreprocessParams& params, int32_t device, int threads);

  const PreprocessParams& params() const noexcept { return params_; }
  DeviceId device() const noexcept { return device_; }

  // The parameters with another size. Throws as Validate.
  PreprocessParams MakeParams(TensorSize size) const;
  std::shared_ptr<Preprocessor> Get(TensorSize size);

 private:
  PreprocessParams params_;
  DeviceId device_;
  int threads_;
  std::shared_ptr<Preprocessor> own_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Preprocessor>> recent_;  // the last is the one used last
};

}  // namespace endcap::c_api
