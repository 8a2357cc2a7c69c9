#include "preprocess/tensor/row_writer.h"

#include "common/fail.h"
#include "preprocess/tensor/typed_row_writer.h"

namespace endcap {
namespace {

template <typename T>
std::unique_ptr<RowWriter> Make(const PreprocessParams& params, const Placement& placement,
                                const TensorView& tensor, int row_channels) {
  if (row_channels == 4) return MakeSimdRowWriter<T>(params, placement, tensor);
  return std::make_unique<TypedRowWriter<T>>(params, placement, tensor, row_channels);
}

}  // namespace

std::unique_ptr<RowWriter> MakeRowWriter(const PreprocessParams& params, const Placement& placement,
                                         const TensorView& tensor, int row_channels) {
  switch (params.dtype) {
    case DType::kFloat32:
      return Make<float>(params, placement, tensor, row_channels);
    case DType::kFloat16:
      return Make<Half>(params, placement, tensor, row_channels);
    case DType::kUint8:
      return Make<uint8_t>(params, placement, tensor, row_channels);
    case DType::kInt8:
      return Make<int8_t>(params, placement, tensor, row_channels);
    case DType::kInt32:
    case DType::kInt64:
      break;
  }
  FailArgument("dtype is ", DTypeName(params.dtype), ": give float32, float16, uint8 or int8");
}

}  // namespace endcap
