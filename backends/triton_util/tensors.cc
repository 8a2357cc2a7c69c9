#include "triton_util/tensors.h"

#include <array>
#include <cstdint>
#include <string>

#include "endcap/error.h"

namespace endcap::triton {
namespace {

struct Row {
  DType dtype;
  TRITONSERVER_DataType triton;
};

constexpr std::array<Row, 6> kTable{{
    {DType::kUint8, TRITONSERVER_TYPE_UINT8},
    {DType::kInt8, TRITONSERVER_TYPE_INT8},
    {DType::kInt32, TRITONSERVER_TYPE_INT32},
    {DType::kFloat16, TRITONSERVER_TYPE_FP16},
    {DType::kFloat32, TRITONSERVER_TYPE_FP32},
    {DType::kInt64, TRITONSERVER_TYPE_INT64},
}};

// Returns the bytes of one element; 1 for elements without alignment.
size_t ElementSize(TRITONSERVER_DataType data_type) noexcept {
  switch (data_type) {
    case TRITONSERVER_TYPE_UINT16:
    case TRITONSERVER_TYPE_INT16:
    case TRITONSERVER_TYPE_FP16:
    case TRITONSERVER_TYPE_BF16:
      return 2;
    case TRITONSERVER_TYPE_UINT32:
    case TRITONSERVER_TYPE_INT32:
    case TRITONSERVER_TYPE_FP32:
      return 4;
    case TRITONSERVER_TYPE_UINT64:
    case TRITONSERVER_TYPE_INT64:
    case TRITONSERVER_TYPE_FP64:
      return 8;
    default:
      return 1;
  }
}

}  // namespace

TRITONSERVER_DataType ToTriton(DType dtype) noexcept {
  for (const Row& row : kTable) {
    if (row.dtype == dtype) return row.triton;
  }
  return TRITONSERVER_TYPE_INVALID;
}

bool IsAligned(const void* address, TRITONSERVER_DataType data_type) noexcept {
  return reinterpret_cast<uintptr_t>(address) % ElementSize(data_type) == 0;
}

DType FromTriton(TRITONSERVER_DataType data_type, std::string_view tensor) {
  for (const Row& row : kTable) {
    if (row.triton == data_type) return row.dtype;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "tensor '" + std::string(tensor) +
                  "' has an element type other than UINT8, INT8, INT32, INT64, FP16 and FP32");
}

size_t ReadStringLength(Bytes element) noexcept {
  size_t length = 0;
  for (size_t i = 0; i < kStringLengthBytes; ++i) {
    length |= std::to_integer<size_t>(element[i]) << (8 * i);
  }
  return length;
}

void AppendString(std::vector<std::byte>& tensor, std::string_view text) {
  for (int shift = 0; shift < 32; shift += 8) {
    tensor.push_back(static_cast<std::byte>((text.size() >> shift) & 0xFF));
  }
  for (const char c : text) tensor.push_back(static_cast<std::byte>(c));
}

}  // namespace endcap::triton
