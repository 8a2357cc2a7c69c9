#pragma once

#include <cstddef>
#include <string_view>

#include "onnx/onnxruntime_api.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// An element type that both ONNX Runtime and Triton have.
struct ElementType {
  ONNXTensorElementDataType onnx;
  TRITONSERVER_DataType triton;
  std::string_view config_name;  // in config.pbtxt
  size_t size;                   // bytes; 0 for strings

  bool is_string() const noexcept { return size == 0; }
};

// Returns null for types that Triton has no name for.
const ElementType* FindElementType(ONNXTensorElementDataType type) noexcept;

}  // namespace endcap::triton
