#include "preprocess/preprocess_output.h"

#include <algorithm>
#include <cstring>

#include "common/fail.h"

namespace endcap {

void CheckOutputShape(const PreprocessParams& params, const TensorView& view, size_t item) {
  const TensorSpec spec = PreprocessOutputs(params)[0];
  const bool same_shape =
      view.rank == spec.rank &&
      std::equal(spec.shape.begin(), spec.shape.begin() + spec.rank, view.shape.begin());
  if (view.data == nullptr || view.dtype != spec.dtype || !same_shape) {
    FailArgument("output ", item, " does not fit: images are ", DTypeName(spec.dtype), " [",
                 spec.shape[0], ", ", spec.shape[1], ", ", spec.shape[2], "]");
  }
  if (view.device == Device::kCuda && !IsAligned(view)) {
    FailArgument("output ", item, " does not begin at a multiple of its element's size");
  }
}

void CheckHostOutput(const PreprocessParams& params, const TensorView& view, size_t item) {
  CheckOutputShape(params, view, item);
  if (view.device != Device::kCpu) {
    Fail(ErrorCode::kUnsupported, "output ", item,
         " is in GPU memory; this build writes CPU memory only");
  }
}

void WriteBlank(const PreprocessOutput& output) {
  if (output.image.data != nullptr) {
    std::memset(output.image.data, 0, output.image.size_bytes());
  }
  WriteGeometry(output, BlankGeometry(output));
}

void WriteStatus(const PreprocessOutput& output, const ItemStatus& status) {
  if (output.status != nullptr) *output.status = static_cast<int32_t>(status.code);
}

void WriteGeometry(const PreprocessOutput& output, const Geometry& geometry) {
  if (output.geometry == nullptr) return;
  const auto values = geometry.ToArray();
  std::copy(values.begin(), values.end(), output.geometry);
}

Geometry BlankGeometry(const PreprocessOutput& output) {
  Geometry geometry;
  geometry.source_index = static_cast<float>(output.source_index);
  return geometry;
}

}  // namespace endcap
