#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace endcap {

// int64 is only for class ids that a network gives.
enum class DType : int32_t { kUint8, kInt8, kInt32, kFloat16, kFloat32, kInt64 };
enum class Device : int32_t { kCpu, kCuda };

// The CPU, or one GPU by its number.
struct DeviceId {
  Device type = Device::kCpu;
  int id = 0;

  bool operator==(const DeviceId&) const = default;
};

// Bytes of one element.
constexpr size_t GetElementSize(DType dtype) noexcept {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
      return 1;
    case DType::kFloat16:
      return 2;
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
      return 8;
  }
  return 0;
}

// "uint8", "int8", "int32", "float16", "float32", "int64".
constexpr std::string_view DTypeName(DType dtype) noexcept {
  switch (dtype) {
    case DType::kUint8:
      return "uint8";
    case DType::kInt8:
      return "int8";
    case DType::kInt32:
      return "int32";
    case DType::kFloat16:
      return "float16";
    case DType::kFloat32:
      return "float32";
    case DType::kInt64:
      return "int64";
  }
  return "unknown";
}

// A dense row-major array that it does not own. `T` is `void` for outputs and `const void` for
// inputs. A view with data == nullptr is an absent tensor.
template <typename T>
struct BasicTensorView {
  static constexpr int kMaxRank = 4;

  T* data = nullptr;
  DType dtype = DType::kFloat32;
  std::array<int64_t, kMaxRank> shape{};
  int rank = 0;
  Device device = Device::kCpu;
  int device_id = 0;

  int64_t size() const noexcept {
    int64_t elements = 1;
    for (int i = 0; i < rank; ++i) elements *= shape[static_cast<size_t>(i)];
    return elements;
  }
  size_t size_bytes() const noexcept { return static_cast<size_t>(size()) * GetElementSize(dtype); }
};

using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

// Whether the data begins at a multiple of its element's size, as GPUs need it.
template <typename T>
bool IsAligned(const BasicTensorView<T>& view) noexcept {
  return reinterpret_cast<uintptr_t>(view.data) % GetElementSize(view.dtype) == 0;
}

// Name, type and shape of one item's tensor, without the batch dimension. A dimension of -1 is
// known only at run time.
struct TensorSpec {
  std::string_view name;
  DType dtype = DType::kFloat32;
  std::array<int64_t, TensorView::kMaxRank> shape{};
  int rank = 0;
};

}  // namespace endcap
