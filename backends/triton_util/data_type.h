#pragma once

#include <string>
#include <string_view>

#include "endcap/tensor_view.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// "TYPE_STRING" and the like: how config.pbtxt names a type.
inline constexpr std::string_view kConfigString = "TYPE_STRING";
inline constexpr std::string_view kConfigUint8 = "TYPE_UINT8";

std::string ConfigName(DType dtype);
TRITONSERVER_DataType ToTriton(DType dtype) noexcept;

// Whether elements of the type can be read and written in place at the address: it must be a
// multiple of their size. The elements of a BYTES tensor can lie anywhere.
bool IsAligned(const void* address, TRITONSERVER_DataType data_type) noexcept;

// Throws kInvalidArgument naming `tensor` when endcap has no such element type.
DType FromTriton(TRITONSERVER_DataType data_type, std::string_view tensor);

}  // namespace endcap::triton
