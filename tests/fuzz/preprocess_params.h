#pragma once

#include <optional>

#include "endcap/preprocess.h"
#include "small_files.h"

namespace endcap::fuzz {

// Parameters of any kind, for tensors of at most `max_side` pixels a side. May be impossible ones.
inline PreprocessParams PickPreprocessParams(FuzzInput& input, int max_side) {
  PreprocessParams params;
  params.limits = SmallLimits();
  params.height = input.Int(1, max_side);
  params.width = input.Int(1, max_side);
  params.fit = input.PickEnum(Fit::kCenterCrop);
  params.resize_shorter = std::max(params.height, params.width) + input.Int(0, 15);
  params.interpolation = input.PickEnum(Interpolation::kArea);
  params.antialias = input.Bool();
  params.quantize = input.PickEnum(Quantize::kNone);
  params.pad_value = input.Int(0, 255);
  params.pad_align = input.PickEnum(PadAlign::kTopLeft);
  params.upscale = input.Bool();
  params.color = input.PickEnum(Color::kGray);
  params.layout = input.PickEnum(Layout::kNhwc);
  params.dtype =
      input.Pick(std::array{DType::kFloat32, DType::kFloat16, DType::kUint8, DType::kInt8});
  if (input.Bool()) params.scale = input.Number(-2.0, 2.0);
  if (input.Bool()) {
    for (double& value : params.mean) value = input.Number(-256.0, 256.0);
    for (double& value : params.std) value = input.Number(-4.0, 4.0);
  }
  if (input.Happens(16)) params.scale = input.Number(-1e9, 1e9);
  params.exif = input.PickEnum(ExifPolicy::kIgnore);
  params.decode = input.PickEnum(DecodeMode::kFast);
  params.max_rois = 16;
  params.base64 = input.PickEnum(Base64::kReject);
  return params;
}

// The memory of one item's outputs, of exactly the sizes that are asked for.
struct ItemMemory {
  std::vector<uint8_t> tensor;
  std::optional<OnGpu<uint8_t>> on_gpu;
  std::array<float, Geometry::kSize> geometry{};
  int32_t status = -1;

  PreprocessOutput Make(const PreprocessParams& params, int source_index, DeviceId device = {}) {
    const TensorSpec spec = PreprocessOutputs(params)[0];
    PreprocessOutput output;
    output.image.dtype = spec.dtype;
    output.image.shape = spec.shape;
    output.image.rank = spec.rank;
    output.image.device = device.type;
    // Values that show where nothing was written.
    tensor.assign(output.image.size_bytes(), 0xA5);
    output.image.data = tensor.data();
    if (device.type == Device::kCuda) output.image.data = on_gpu.emplace(tensor).get();
    output.geometry = geometry.data();
    output.status = &status;
    output.source_index = source_index;
    return output;
  }

  void AddTo(Outcome& outcome, const ItemStatus& item) const {
    outcome.Add(item);
    outcome.Add(on_gpu ? on_gpu->Read() : tensor);
    outcome.Add(geometry.data(), geometry.size());
    outcome.Add(int64_t{status});
  }
};

// RequireEqualFileResults of run(device, outcome), and the same results on a GPU. How much of a
// damaged file is read depends on the device.
template <typename Run>
Outcome RequireEqualOnDevices(std::string_view target, std::string_view what,
                              const ImageView& image, const Run& run) {
  Outcome outcome = RequireEqualFileResults(target, what, image,
                                            [&](Outcome& result) { run(DeviceId{}, result); });
  if (!HasGpu() || outcome.code == ErrorCode::kCorruptImage) return outcome;
  const Outcome actual = Capture([&](Outcome& result) { run(DeviceId{Device::kCuda, 0}, result); });
  if (actual.code != ErrorCode::kCorruptImage) RequireEqual(outcome, actual, "scalar against cuda");
  return outcome;
}

}  // namespace endcap::fuzz
