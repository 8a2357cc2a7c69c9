#include "endcap/tensor_view.h"

namespace endcap {

std::string_view DTypeName(DType dtype) noexcept {
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
  }
  return "unknown";
}

}  // namespace endcap
