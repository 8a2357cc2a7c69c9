#pragma once

#include <span>

#include "triton_util/error_guard.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// Gives a request back to the server, which then frees its memory. What the server refuses is
// logged.
void Release(TRITONBACKEND_Request* request) noexcept;

// Answers requests with an error and releases them, where there is no memory for more.
void RefuseAll(std::span<TRITONBACKEND_Request*> requests, const Failure& failure) noexcept;

}  // namespace endcap::triton
