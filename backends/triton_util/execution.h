#pragma once

#include <span>

#include "triton_util/model.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// Serves the requests that the server handed over: each is answered once, reported, and released
// once, whatever happens on the way.
void ServeRequests(TRITONBACKEND_ModelInstance* handle, Instance& instance, Model& model,
                   std::span<TRITONBACKEND_Request*> requests) noexcept;

}  // namespace endcap::triton
