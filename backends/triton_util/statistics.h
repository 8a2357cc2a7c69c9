#pragma once

#include <cstdint>
#include <span>

#include "triton_util/model.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// Now, on the clock that Triton's statistics use: steady, nanoseconds.
uint64_t NowNs() noexcept;

// Reports every request of one execution, and the execution itself with its number of items. The
// requests must not be released yet.
void ReportStatistics(TRITONBACKEND_ModelInstance* instance, std::span<const Exchange> exchanges,
                      const ExecutionTimes& times) noexcept;

}  // namespace endcap::triton
