#pragma once

#include <cstdint>

#include "triton_util/model.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// Now, on the clock that Triton's statistics use: steady, nanoseconds.
uint64_t NowNs() noexcept;

// Reports a request, which must not be released yet.
void ReportRequest(TRITONBACKEND_ModelInstance* instance, const PendingRequest& pending,
                   const ExecutionTimes& times) noexcept;
// Reports an execution that computed that many items; none: nothing.
void ReportExecution(TRITONBACKEND_ModelInstance* instance, int64_t items,
                     const ExecutionTimes& times) noexcept;

}  // namespace endcap::triton
