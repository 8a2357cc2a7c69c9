#pragma once

#include <string>
#include <string_view>

#include "triton_util/triton_api.h"

namespace endcap::triton {

// Writes one line to the server's log. Never fails: a line that cannot be written is lost.
void Log(TRITONSERVER_LogLevel level, std::string_view text) noexcept;

}  // namespace endcap::triton
