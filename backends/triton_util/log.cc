#include "triton_util/log.h"

#include <new>

#include "triton_util/handles.h"

namespace endcap::triton {

void Log(TRITONSERVER_LogLevel level, std::string_view text) noexcept {
  if (!TRITONSERVER_LogIsEnabled(level)) return;
  try {
    const std::string line(text);
    const ErrorHandle unwritten(TRITONSERVER_LogMessage(level, "endcap", 0, line.c_str()));
  } catch (const std::bad_alloc&) {
    const ErrorHandle unwritten(
        TRITONSERVER_LogMessage(level, "endcap", 0, "out of memory while writing a log line"));
  }
}

}  // namespace endcap::triton
