#include "tensors.h"

#include <algorithm>
#include <stdexcept>

#include "dali/core/format.h"

namespace endcap::operators {
namespace {

int32_t CoreType(const char* name, ::dali::DALIDataType type) {
  switch (type) {
    case DALI_UINT8:
      return ENDCAP_UINT8;
    case DALI_INT8:
      return ENDCAP_INT8;
    case DALI_INT32:
      return ENDCAP_INT32;
    case DALI_FLOAT16:
      return ENDCAP_FLOAT16;
    case DALI_FLOAT:
      return ENDCAP_FLOAT32;
    case DALI_INT64:
      return ENDCAP_INT64;
    default:
      throw std::invalid_argument(
          ::dali::make_string(name, " is ", ::dali::TypeTable::GetTypeInfo(type).name(),
                              ": give float or float16, int32 for counts, int32 or int64 for "
                              "classes; fn.cast converts"));
  }
}

}  // namespace

::dali::DALIDataType ToDaliType(int32_t dtype) {
  switch (dtype) {
    case ENDCAP_UINT8:
      return DALI_UINT8;
    case ENDCAP_INT8:
      return DALI_INT8;
    case ENDCAP_INT32:
      return DALI_INT32;
    case ENDCAP_FLOAT16:
      return DALI_FLOAT16;
    case ENDCAP_FLOAT32:
      return DALI_FLOAT;
    case ENDCAP_INT64:
      return DALI_INT64;
    default:
      throw std::logic_error("the core has a tensor of an unknown type");
  }
}

::dali::TensorShape<> ToDaliShape(const endcap_tensor_spec& spec) {
  return {spec.shape, spec.shape + spec.rank};
}

size_t CountBytes(::dali::DALIDataType type, const ::dali::TensorShape<>& shape) {
  return static_cast<size_t>(::dali::volume(shape)) * ::dali::TypeTable::GetTypeInfo(type).size();
}

endcap_tensor MakeView(const char* name, const void* data, ::dali::DALIDataType type,
                       const ::dali::TensorShape<>& shape, bool on_gpu) {
  endcap_tensor view = {};
  view.dtype = CoreType(name, type);
  if (shape.size() > ENDCAP_MAX_RANK) {
    throw std::invalid_argument(::dali::make_string(name, " has ", shape.size(),
                                                    " dims: give one image's tensor a sample"));
  }
  view.data = const_cast<void*>(data);  // the core does not write to inputs
  view.rank = shape.size();
  std::copy(shape.begin(), shape.end(), view.shape);
  view.on_gpu = on_gpu ? 1 : 0;
  return view;
}

}  // namespace endcap::operators
