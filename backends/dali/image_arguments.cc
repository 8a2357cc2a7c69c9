#include "image_arguments.h"

#include <stdexcept>
#include <string>

namespace endcap::operators {
namespace {

using ::dali::CPUBackend;
using Samples = ::dali::TensorList<CPUBackend>;

constexpr int64_t kRoiValues = 4;  // x1, y1, x2, y2

[[noreturn]] void Refuse(const std::string& name, int sample, const std::string& wanted) {
  throw std::invalid_argument(name + " of sample " + std::to_string(sample) +
                              " does not fit: give " + wanted);
}

ImageSize SizeOf(const Samples& samples, int sample) {
  constexpr const char* kWanted = "int32 [2], its height and width from 1, or one number for both";
  const int64_t count = ::dali::volume(samples.tensor_shape(sample));
  if (samples.type() != DALI_INT32 || count < 1 || count > 2) Refuse("size", sample, kWanted);
  const auto* values = samples.tensor<int32_t>(sample);
  const ImageSize size = {values[0], values[count - 1]};
  if (size.height < 1 || size.width < 1) Refuse("size", sample, kWanted);
  return size;
}

ImageRois RoisOf(const Samples& samples, int sample) {
  const auto& shape = samples.tensor_shape(sample);
  if (samples.type() != DALI_FLOAT || shape.size() != 2 || shape[1] != kRoiValues) {
    Refuse("rois", sample, "float32 [N, 4], the regions' x1, y1, x2, y2 in pixels");
  }
  return {samples.tensor<float>(sample), shape[0]};
}

}  // namespace

ImageArguments::ImageArguments(const ::dali::OpSpec& spec)
    : has_size_input_(spec.HasTensorArgument("size")),
      has_rois_input_(spec.HasTensorArgument("rois")),
      has_rois_(spec.ArgumentDefined("rois")) {
  if (!has_rois_ || has_rois_input_) return;
  fixed_rois_ = spec.GetRepeatedArgument<float>("rois");
  if (fixed_rois_.empty() || fixed_rois_.size() % kRoiValues != 0) {
    throw std::invalid_argument(
        "rois has " + std::to_string(fixed_rois_.size()) +
        " numbers: give x1, y1, x2, y2 of each region one after the other, or float32 [N, 4] for "
        "each sample");
  }
}

std::vector<ImageSize> ImageArguments::Sizes(const ::dali::ArgumentWorkspace& ws, int count) const {
  std::vector<ImageSize> sizes(count);
  if (!has_size_input_) return sizes;
  const Samples& samples = ws.ArgumentInput("size");
  for (int i = 0; i < count; ++i) sizes[i] = SizeOf(samples, i);
  return sizes;
}

std::vector<ImageRois> ImageArguments::Rois(const ::dali::ArgumentWorkspace& ws, int count) const {
  std::vector<ImageRois> rois(count);
  if (!has_rois_) return rois;
  if (!has_rois_input_) {
    const auto fixed = static_cast<int64_t>(fixed_rois_.size()) / kRoiValues;
    rois.assign(count, {fixed_rois_.data(), fixed});
    return rois;
  }
  const Samples& samples = ws.ArgumentInput("rois");
  for (int i = 0; i < count; ++i) rois[i] = RoisOf(samples, i);
  return rois;
}

}  // namespace endcap::operators
