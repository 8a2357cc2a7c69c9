#pragma once

#include "dali/core/tensor_shape.h"
#include "dali/pipeline/data/types.h"
#include "endcap/c_api.h"

namespace endcap::operators {

// DALI's type of a core's tensor.
::dali::DALIDataType ToDaliType(int32_t dtype);

::dali::TensorShape<> ToDaliShape(const endcap_tensor_spec& spec);

// Bytes of one tensor of that type and shape.
size_t CountBytes(::dali::DALIDataType type, const ::dali::TensorShape<>& shape);

// A view of DALI's memory for the core. `name` is for the error: throws for a type or rank that the
// core has none of.
endcap_tensor MakeView(const char* name, const void* data, ::dali::DALIDataType type,
                       const ::dali::TensorShape<>& shape, bool on_gpu);

}  // namespace endcap::operators
