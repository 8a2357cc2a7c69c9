#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "endcap/tensor_view.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

using Bytes = std::span<const std::byte>;

// Host memory or the memory of one GPU.
struct MemoryPlace {
  Device device = Device::kCpu;
  int device_id = 0;    // 0 for host memory
  bool pinned = false;  // of host memory: a GPU copies to it asynchronously

  static MemoryPlace Gpu(int device_id) noexcept { return {Device::kCuda, device_id, false}; }
  static MemoryPlace Pinned() noexcept { return {Device::kCpu, 0, true}; }
  static MemoryPlace FromTriton(TRITONSERVER_MemoryType type, int64_t id) noexcept {
    if (type == TRITONSERVER_MEMORY_GPU) return Gpu(static_cast<int>(id));
    return type == TRITONSERVER_MEMORY_CPU_PINNED ? Pinned() : MemoryPlace{};
  }

  bool on_gpu() const noexcept { return device == Device::kCuda; }
  TRITONSERVER_MemoryType type() const noexcept {
    if (on_gpu()) return TRITONSERVER_MEMORY_GPU;
    return pinned ? TRITONSERVER_MEMORY_CPU_PINNED : TRITONSERVER_MEMORY_CPU;
  }
  // Whether the same processor accesses both in place; `pinned` is ignored.
  bool operator==(const MemoryPlace& other) const noexcept {
    return device == other.device && device_id == other.device_id;
  }
};

TRITONSERVER_DataType ToTriton(DType dtype) noexcept;
// Throws kInvalidArgument with the name of the tensor for a type that endcap does not have.
DType FromTriton(TRITONSERVER_DataType data_type, std::string_view tensor);

// Whether elements of the type can be accessed in place at the address, which must be a multiple of
// their size. Elements of BYTES tensors have no alignment.
bool IsAligned(const void* address, TRITONSERVER_DataType data_type) noexcept;

// A BYTES tensor is a sequence of elements: the length in 4 bytes, little-endian, then the
// characters.
inline constexpr size_t kStringLengthBytes = 4;
// Returns the length of the element that `element` begins with; at least 4 bytes are read.
size_t ReadStringLength(Bytes element) noexcept;
// Appends one element.
void AppendString(std::vector<std::byte>& tensor, std::string_view text);

// Views of the tensors of a request's items, which are adjacent in one buffer. T as in
// BasicTensorView. Owns nothing; default-constructed for an absent tensor.
template <typename T>
class ItemViews {
 public:
  ItemViews() = default;
  // first: the view of item 0.
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

// Items of the shape and dtype of `spec`; data: the memory of item 0.
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
