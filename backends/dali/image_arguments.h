#pragma once

#include <cstdint>
#include <vector>

#include "dali/pipeline/operator/op_spec.h"
#include "dali/pipeline/workspace/workspace.h"

namespace endcap::operators {

// The size of a sample's tensor; 0, 0: that of the parameters.
struct ImageSize {
  int32_t height = 0;
  int32_t width = 0;
};

// A sample's regions: float32 [count][4].
struct ImageRois {
  const float* data = nullptr;
  int64_t count = 0;
};

// The arguments that may have a value for each sample.
class ImageArguments {
 public:
  explicit ImageArguments(const ::dali::OpSpec& spec);

  // Whether the outputs have a row for each region.
  bool has_rois() const noexcept { return has_rois_; }

  // Return one value for each of `count` samples. Throw std::invalid_argument for a type, dims or
  // values that do not fit. The regions are in the workspace's memory.
  std::vector<ImageSize> Sizes(const ::dali::ArgumentWorkspace& ws, int count) const;
  std::vector<ImageRois> Rois(const ::dali::ArgumentWorkspace& ws, int count) const;

 private:
  bool has_size_input_;
  bool has_rois_input_;
  bool has_rois_;
  std::vector<float> fixed_rois_;
};

}  // namespace endcap::operators
