#pragma once

#include <array>
#include <cstdint>

#include "preprocess/tensor/normalize.h"

namespace endcap {

// Where one row of four-channel pixels goes. All arrays of three are in the order of the row: red,
// green, blue.
template <typename T>
struct RowStore {
  std::array<T*, 3> to;  // first element of each channel
  bool interleaved;      // the three numbers of a pixel lie side by side
  bool blue_first;       // in the tensor
};

// 8-bit pixels by the three splits, or, where a null pointer is given, by the steps of `exact` in
// float64. T: float or Half.
template <typename T>
void StoreBytesAs(const uint8_t* row, int width, const SplitNormalize* split,
                  const std::array<ChannelNormalize, 3>& exact, const RowStore<T>& store);

// float32 pixels by ChannelNormalize::Single. T: float or Half.
template <typename T>
void StoreFloatsAs(const float* row, int width, const std::array<ChannelNormalize, 3>& normalize,
                   const RowStore<T>& store);

// 8-bit pixels as they are.
void StoreBytes(const uint8_t* row, int width, const RowStore<uint8_t>& store);

}  // namespace endcap
