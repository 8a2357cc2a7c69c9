#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "endcap/tensor_view.h"
#include "triton_util/memory_place.h"

namespace endcap::triton {

// The tensors of a request's items, one after the other in one buffer. T as in BasicTensorView.
// A default-constructed one stands for an absent tensor.
template <typename T>
class ItemViews {
 public:
  ItemViews() = default;
  // `first` is the view of item 0.
  explicit ItemViews(const BasicTensorView<T>& first) noexcept : first_(first) {}

  bool present() const noexcept { return first_.data != nullptr; }
  const BasicTensorView<T>& first() const noexcept { return first_; }

  BasicTensorView<T> operator[](int64_t item) const noexcept {
    BasicTensorView<T> view = first_;
    if (present()) {
      using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
      view.data = static_cast<Byte*>(first_.data) + static_cast<size_t>(item) * view.size_bytes();
    }
    return view;
  }

  // The item's data as elements of U; null for an absent tensor.
  template <typename U>
  U* Data(int64_t item) const noexcept {
    return static_cast<U*>((*this)[item].data);
  }

 private:
  BasicTensorView<T> first_;
};

using InputItems = ItemViews<const void>;
using OutputItems = ItemViews<void>;

// Items of the shape and dtype of `spec`, the first of them at `data`.
inline OutputItems OutputItemsAt(const TensorSpec& spec, void* data,
                                 const MemoryPlace& place = {}) noexcept {
  TensorView view;
  view.data = data;
  view.dtype = spec.dtype;
  view.shape = spec.shape;
  view.rank = spec.rank;
  view.device = place.device;
  view.device_id = place.device_id;
  return OutputItems(view);
}

inline size_t CountBytes(const TensorSpec& spec, int64_t item_count) noexcept {
  return OutputItemsAt(spec, nullptr).first().size_bytes() * static_cast<size_t>(item_count);
}

}  // namespace endcap::triton
