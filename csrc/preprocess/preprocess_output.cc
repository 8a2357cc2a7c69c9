#include "preprocess/preprocess_output.h"

#include <algorithm>
#include <cstring>

#include "common/fail.h"

namespace endcap {

void CheckOutput(const PreprocessParams& params, const TensorView& view, DeviceId device,
                 size_t index) {
  const TensorSpec spec = PreprocessOutputs(params)[0];
  const bool same_shape =
      view.rank == spec.rank &&
      std::equal(spec.shape.begin(), spec.shape.begin() + spec.rank, view.shape.begin());
  if (view.dtype != spec.dtype || !same_shape) {
    FailArgument("output ", index, " does not fit: images are ", DTypeName(spec.dtype), " [",
                 spec.shape[0], ", ", spec.shape[1], ", ", spec.shape[2], "]");
  }
  if (device.type == Device::kCpu) {
    if (view.device == Device::kCpu) return;
    Fail(ErrorCode::kUnsupported, "output ", index,
         " is in GPU memory; a preprocessor of the CPU writes CPU memory only");
  }
  if (view.device == Device::kCuda && !IsAligned(view)) {
    FailArgument("output ", index, " does not begin at a multiple of its element's size");
  }
  if (view.device != Device::kCuda || view.device_id != device.id) {
    FailArgument("output ", index, " is not memory of device cuda:", device.id);
  }
}

bool WantsTensors(const PreprocessInput& input) {
  const auto wanted = [](const PreprocessOutput& output) { return output.image.data != nullptr; };
  const auto count = std::ranges::count_if(input.outputs, wanted);
  if (count != 0 && count != std::ssize(input.outputs)) {
    FailArgument(count, " of ", input.outputs.size(),
                 " rois came with memory for a tensor: give it for all or for none");
  }
  return count != 0;
}

void WriteBlank(const PreprocessOutput& output) {
  if (output.image.data != nullptr) {
    std::memset(output.image.data, 0, output.image.size_bytes());
  }
  WriteBlankGeometry(output);
}

void WriteStatus(const PreprocessOutput& output, const ItemStatus& status) {
  if (output.status != nullptr) *output.status = static_cast<int32_t>(status.code);
}

void WriteStatuses(const PreprocessInput& input, const PreprocessItem& item) {
  if (!input.rois) return WriteStatus(input.outputs[0], item.status);
  for (size_t k = 0; k < item.rois.size(); ++k) WriteStatus(input.outputs[k], item.rois[k]);
}

void WriteGeometry(const PreprocessOutput& output, const Geometry& geometry) {
  if (output.geometry == nullptr) return;
  const auto values = geometry.ToArray();
  std::copy(values.begin(), values.end(), output.geometry);
}

void WriteBlankGeometry(const PreprocessOutput& output) {
  WriteGeometry(output, {.source_index = static_cast<float>(output.source_index)});
}

}  // namespace endcap
