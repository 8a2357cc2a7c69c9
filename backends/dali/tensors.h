#pragma once

#include "dali/core/tensor_shape.h"
#include "dali/pipeline/data/types.h"
#include "endcap/c_api.h"

namespace endcap::operators {

// Returns DALI's type for a dtype of the core.
::dali::DALIDataType ToDaliType(int32_t dtype);

::dali::TensorShape<> ToDaliShape(const endcap_tensor_spec& spec);

// Returns the bytes of one tensor.
size_t CountBytes(::dali::DALIDataType type, const ::dali::TensorShape<>& shape);

// Returns a view of DALI's memory for the core. Throws with `name` for a type or rank that the core
// does not support.
endcap_tensor MakeView(const char* name, const void* data, ::dali::DALIDataType type,
                       const ::dali::TensorShape<>& shape, bool on_gpu);

}  // namespace endcap::operators
