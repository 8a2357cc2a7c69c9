#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "endcap/tensor_view.h"
#include "triton_util/inner_call.h"

namespace endcap::triton {

// One item's part of another model's output, without the batch dimension. In host memory unless
// said otherwise.
struct ItemTensor {
  std::vector<int64_t> shape;
  Piece memory;

  template <typename T>
  const T* Data() const noexcept {
    return reinterpret_cast<const T*>(memory.data);
  }
};

// How an output is cut into items.
struct ItemCount {
  size_t count = 1;
  bool batched = false;  // the first dimension is `count`
};

// The items of an output. Throws InnerError when it has another type, or not that many items.
std::vector<ItemTensor> SplitItems(const InnerCall& call, std::string_view name, DType dtype,
                                   const ItemCount& items);
// The same for an output of any type, wherever it lies.
std::vector<ItemTensor> SplitItems(const InnerCall& call, std::string_view name,
                                   const ItemCount& items);

// The first element of each item of a BYTES output.
std::vector<std::string> FirstStrings(const InnerCall& call, std::string_view name,
                                      const ItemCount& items);

}  // namespace endcap::triton
