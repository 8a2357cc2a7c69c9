#include <algorithm>
#include <cstring>

#include "common/fail.h"
#include "endcap/preprocess.h"
#include "preprocess/image_to_tensor.h"

namespace endcap {
namespace {

void CheckOutput(const PreprocessParams& params, const TensorView& view, size_t item) {
  const TensorSpec spec = PreprocessOutputs(params)[0];
  const bool same_shape =
      view.rank == spec.rank &&
      std::equal(spec.shape.begin(), spec.shape.begin() + spec.rank, view.shape.begin());
  if (view.data == nullptr || view.dtype != spec.dtype || !same_shape) {
    FailArgument("output ", item, " does not fit: images are ", DTypeName(spec.dtype), " [",
                 spec.shape[0], ", ", spec.shape[1], ", ", spec.shape[2], "]");
  }
  if (view.device != Device::kCpu) {
    Fail(ErrorCode::kUnsupported, "output ", item,
         " is in GPU memory; this build writes CPU memory only");
  }
}

// What a failed image leaves behind.
void WriteBlank(const PreprocessOutput& output) {
  std::memset(output.image.data, 0, output.image.size_bytes());
  if (output.geometry == nullptr) return;
  Geometry geometry;
  geometry.source_index = static_cast<float>(output.source_index);
  const auto values = geometry.ToArray();
  std::copy(values.begin(), values.end(), output.geometry);
}

PreprocessItem RunItem(const PreprocessParams& params, const ImageView& image,
                       const PreprocessOutput& output) noexcept {
  PreprocessItem item;
  try {
    item.decode_ns = ImageToTensor(params, image, output);
  } catch (...) {
    item.status = StatusOfCurrentException();
    WriteBlank(output);
  }
  if (output.status != nullptr) *output.status = static_cast<int32_t>(item.status.code);
  return item;
}

}  // namespace

std::vector<TensorSpec> PreprocessOutputs(const PreprocessParams& params) {
  TensorSpec images{"images", params.dtype, {params.channels(), params.height, params.width}, 3};
  if (params.layout == Layout::kNhwc) {
    images.shape = {params.height, params.width, params.channels()};
  }
  return {images,
          {"geometry", DType::kFloat32, {Geometry::kSize}, 1},
          {"status", DType::kInt32, {1}, 1}};
}

Preprocessor::Preprocessor(const PreprocessParams& params, int threads)
    : params_((Validate(params), params)), pool_(threads) {}

std::vector<PreprocessItem> Preprocessor::Run(std::span<const ImageView> images,
                                              std::span<const PreprocessOutput> outputs) {
  if (images.size() != outputs.size()) {
    FailArgument(images.size(), " images came with ", outputs.size(), " outputs");
  }
  for (size_t i = 0; i < outputs.size(); ++i) CheckOutput(params_, outputs[i].image, i);
  std::vector<PreprocessItem> items(images.size());
  pool_.ParallelFor(static_cast<int>(images.size()), [&](int i) {
    const auto index = static_cast<size_t>(i);
    items[index] = RunItem(params_, images[index], outputs[index]);
  });
  return items;
}

}  // namespace endcap
