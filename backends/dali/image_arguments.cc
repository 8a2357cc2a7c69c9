#include "image_arguments.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "dali/core/format.h"

namespace endcap::operators {
namespace {

using ::dali::CPUBackend;
using Samples = ::dali::TensorList<CPUBackend>;

constexpr int64_t kRoiValues = 4;  // x1, y1, x2, y2

// Returns "size of sample 3 is float [2]".
std::string DescribeSample(const char* name, const Samples& samples, int sample) {
  std::string shape;
  for (const int64_t side : samples.tensor_shape(sample)) {
    shape.append(shape.empty() ? "" : ", ").append(std::to_string(side));
  }
  return ::dali::make_string(name, " of sample ", sample, " is ",
                             ::dali::TypeTable::GetTypeInfo(samples.type()).name(), " [", shape,
                             "]");
}

template <typename T>
ImageSize ReadSize(const Samples& samples, int sample, int64_t count) {
  const T* values = samples.tensor<T>(sample);
  const int64_t height = values[0];
  const int64_t width = values[count - 1];
  const auto usable = [](int64_t side) {
    return side >= 1 && side <= std::numeric_limits<int32_t>::max();
  };
  if (!usable(height) || !usable(width)) {
    throw std::invalid_argument(
        ::dali::make_string("size of sample ", sample, " is ", height, ",", width,
                            ": give a height and width in pixels, each from 1"));
  }
  return {static_cast<int32_t>(height), static_cast<int32_t>(width)};
}

ImageSize GetImageSize(const Samples& samples, int sample) {
  const int64_t count = ::dali::volume(samples.tensor_shape(sample));
  if (count == 1 || count == 2) {
    if (samples.type() == DALI_INT32) return ReadSize<int32_t>(samples, sample, count);
    if (samples.type() == DALI_INT64) return ReadSize<int64_t>(samples, sample, count);
  }
  throw std::invalid_argument(DescribeSample("size", samples, sample) +
                              ": give int32 or int64 [2], its height and width, or one number for "
                              "both; fn.cast converts other types");
}

ImageRois GetRois(const Samples& samples, int sample) {
  const auto& shape = samples.tensor_shape(sample);
  if (samples.type() != DALI_FLOAT || shape.size() != 2 || shape[1] != kRoiValues) {
    throw std::invalid_argument(DescribeSample("rois", samples, sample) +
                                ": give float [N, 4], the regions' x1, y1, x2, y2 in pixels; "
                                "fn.cast converts other types");
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
  for (int i = 0; i < count; ++i) sizes[i] = GetImageSize(samples, i);
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
  for (int i = 0; i < count; ++i) rois[i] = GetRois(samples, i);
  return rois;
}

}  // namespace endcap::operators
