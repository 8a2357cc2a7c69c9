#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/half.h"
#include "endcap/tensor_view.h"

namespace endcap::testing {

template <typename T>
ConstTensorView View(const std::vector<T>& values, DType dtype, const std::vector<int64_t>& shape) {
  ConstTensorView view;
  view.data = values.data();
  view.dtype = dtype;
  view.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  return view;
}

inline ConstTensorView Floats(const std::vector<float>& values, const std::vector<int64_t>& shape) {
  return View(values, DType::kFloat32, shape);
}

inline std::vector<uint16_t> ToHalves(const std::vector<float>& values) {
  std::vector<uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), FloatToHalf);
  return halves;
}

}  // namespace endcap::testing
