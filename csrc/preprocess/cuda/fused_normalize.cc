#include "preprocess/cuda/fused_normalize.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace endcap {
namespace {

constexpr size_t kPixels = 256;
constexpr size_t kChannels = 3;

ChannelNormalize MakeNormalize(const PreprocessParams& params, size_t channel) {
  return {params.ResolvedScale(), params.mean[channel], params.std[channel]};
}

// Calls visit with a value of the type that the tensor's elements have.
template <typename Visit>
void WithElementType(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kUint8:
      return visit(uint8_t{});
    case DType::kInt8:
      return visit(int8_t{});
    case DType::kFloat16:
      return visit(Half{});
    case DType::kFloat32:
    case DType::kInt32:  // not a tensor's; Validate refuses it
      break;
  }
  visit(float{});
}

template <typename T, typename Convert>
void AppendElements(std::vector<uint8_t>& bytes, Convert convert) {
  for (size_t pixel = 0; pixel < kPixels; ++pixel) {
    const T element = convert(static_cast<int>(pixel));
    const size_t end = bytes.size();
    bytes.resize(end + sizeof(T));
    std::memcpy(bytes.data() + end, &element, sizeof(T));
  }
}

}  // namespace

std::vector<uint8_t> ElementTable(const PreprocessParams& params) {
  std::vector<uint8_t> table;
  WithElementType(params.dtype, [&](auto element) {
    using T = decltype(element);
    for (size_t c = 0; c < kChannels; ++c) {
      const ChannelNormalize normalize = MakeNormalize(params, c);
      AppendElements<T>(table, [&](int pixel) { return StoreAs<T>(normalize.Exact(pixel)); });
    }
  });
  return table;
}

void SetNormalize(const PreprocessParams& params, FusedLaunch& launch) {
  const std::vector<uint8_t> table = ElementTable(params);
  std::vector<uint8_t> by_split;
  const size_t bytes = GetElementSize(params.dtype);
  for (size_t c = 0; c < kChannels; ++c) {
    const ChannelNormalize normalize = MakeNormalize(params, c);
    launch.single[c] = normalize.InSingle();
    Split(normalize, launch.split[c]);
    WithElementType(params.dtype, [&](auto element) {
      using T = decltype(element);
      AppendElements<T>(by_split, [&](int pixel) {
        return StoreAs<T>(launch.split[c].ApplyFused(static_cast<float>(pixel)));
      });
    });
    const size_t pad = (c * kPixels + static_cast<size_t>(params.pad_value)) * bytes;
    launch.padding[c] = 0;
    std::memcpy(&launch.padding[c], table.data() + pad, bytes);
  }
  launch.normalize = SelectArithmetic(params) == ResizeArithmetic::kFloat ? FusedNormalize::kSingle
                     : by_split == table                                  ? FusedNormalize::kSplit
                                                                          : FusedNormalize::kTable;
}

}  // namespace endcap
