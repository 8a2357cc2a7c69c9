#pragma once

#include <array>
#include <cstdint>

#include "endcap/tensor_view.h"
#include "preprocess/tensor/normalize.h"

namespace endcap {

// Where one row of four-channel pixels goes. All arrays of three are in the order of the row: red,
// green, blue.
struct RowStore {
  std::array<void*, 3> to;  // first element of each channel
  DType dtype;
  bool interleaved;  // the three numbers of a pixel lie side by side
  bool blue_first;   // in the tensor
};

// 8-bit pixels by the three splits, or, where a null pointer is given, by the steps of `exact` in
// float64. To float32 or float16.
void StoreBytes(const uint8_t* row, int width, const SplitNormalize* split,
                const ChannelNormalize* exact, const RowStore& store);

// float32 pixels by ChannelNormalize::Single. To float32 or float16.
void StoreFloats(const float* row, int width, const ChannelNormalize* normalize,
                 const RowStore& store);

// 8-bit pixels unmodified, to uint8.
void CopyBytes(const uint8_t* row, int width, const RowStore& store);

}  // namespace endcap
