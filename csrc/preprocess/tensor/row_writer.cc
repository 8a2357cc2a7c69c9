#include "preprocess/tensor/row_writer.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/fail.h"
#include "preprocess/tensor/typed_row_writer.h"

namespace endcap {
namespace {

template <typename T>
std::unique_ptr<RowWriter> Make(const PreprocessParams& params, const Placement& placement,
                                const TensorView& tensor, int row_channels) {
  if (row_channels == 4) return MakeSimdRowWriter<T>(params, placement, tensor);
  return std::make_unique<TypedRowWriter<T>>(params, placement, tensor, row_channels);
}

}  // namespace

std::unique_ptr<RowWriter> MakeRowWriter(const PreprocessParams& params, const Placement& placement,
                                         const TensorView& tensor, int row_channels) {
  switch (params.dtype) {
    case DType::kFloat32:
      return Make<float>(params, placement, tensor, row_channels);
    case DType::kFloat16:
      return Make<Half>(params, placement, tensor, row_channels);
    case DType::kUint8:
      return Make<uint8_t>(params, placement, tensor, row_channels);
    case DType::kInt8:
      return Make<int8_t>(params, placement, tensor, row_channels);
    case DType::kInt32:
    case DType::kInt64:
      break;
  }
  FailArgument("dtype is ", DTypeName(params.dtype), ": give float32, float16, uint8 or int8");
}

bool Split(const ChannelNormalize& normalize, SplitNormalize& split) {
  const double scale = normalize.scale / normalize.std;
  const double offset = normalize.mean == 0.0 ? 0.0 : -normalize.mean / normalize.std;
  // Multiples of `unit` below 2^24 units are float32 numbers, and so are their sums.
  const double largest = 255.0 * std::abs(scale) + std::abs(offset);
  const double unit = std::ldexp(1.0, std::ilogb(largest) + 1 - 23);
  const double coarse_scale = std::nearbyint(scale / unit) * unit;
  const double coarse_offset = std::nearbyint(offset / unit) * unit;
  split = {static_cast<float>(coarse_scale), static_cast<float>(scale - coarse_scale),
           static_cast<float>(coarse_offset), static_cast<float>(offset - coarse_offset)};
  for (int pixel = 0; pixel < 256; ++pixel) {
    const auto exact = static_cast<float>(normalize.Exact(pixel));
    const float applied = split.Apply(static_cast<float>(pixel));
    // As bits: 0 and -0 differ.
    if (std::bit_cast<uint32_t>(exact) != std::bit_cast<uint32_t>(applied)) return false;
  }
  return true;
}

}  // namespace endcap
