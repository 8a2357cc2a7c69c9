#pragma once

#include <memory>

#include "triton_util/server_api.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// Owners of the C API's objects. A deleter's own error is released: at that point nobody is left
// who could act on it.
template <auto Delete>
struct DeleteWith {
  template <typename T>
  void operator()(T* object) const noexcept {
    if (TRITONSERVER_Error* error = Delete(object); error != nullptr) {
      TRITONSERVER_ErrorDelete(error);
    }
  }
};

template <auto Delete>
struct VoidDeleteWith {
  template <typename T>
  void operator()(T* object) const noexcept {
    Delete(object);
  }
};

using ErrorHandle = std::unique_ptr<TRITONSERVER_Error, VoidDeleteWith<TRITONSERVER_ErrorDelete>>;
using MessageHandle = std::unique_ptr<TRITONSERVER_Message, DeleteWith<TRITONSERVER_MessageDelete>>;
using ParameterHandle =
    std::unique_ptr<TRITONSERVER_Parameter, VoidDeleteWith<TRITONSERVER_ParameterDelete>>;
using MetricHandle = std::unique_ptr<TRITONSERVER_Metric, DeleteWith<TRITONSERVER_MetricDelete>>;
using MetricFamilyHandle =
    std::unique_ptr<TRITONSERVER_MetricFamily, DeleteWith<TRITONSERVER_MetricFamilyDelete>>;
using ResponseHandle =
    std::unique_ptr<TRITONBACKEND_Response, DeleteWith<TRITONBACKEND_ResponseDelete>>;
using AllocatorHandle = std::unique_ptr<TRITONSERVER_ResponseAllocator,
                                        DeleteWith<TRITONSERVER_ResponseAllocatorDelete>>;
using InnerRequestHandle =
    std::unique_ptr<TRITONSERVER_InferenceRequest, DeleteWith<TRITONSERVER_InferenceRequestDelete>>;
using InnerResponseHandle = std::unique_ptr<TRITONSERVER_InferenceResponse,
                                            DeleteWith<TRITONSERVER_InferenceResponseDelete>>;

}  // namespace endcap::triton
