#include "triton_util/trace.h"

#include <algorithm>
#include <string>

#include "triton_util/errors.h"

namespace endcap::triton {

RequestTrace::RequestTrace(TRITONBACKEND_Request* request) noexcept {
  if (TRITONBACKEND_RequestTrace == nullptr) return;
  // An error says that the server is built without traces.
  const ErrorHandle error(TRITONBACKEND_RequestTrace(request, &trace_));
  if (error != nullptr) trace_ = nullptr;
}

void RequestTrace::AddSpan(const TraceSpan& span) noexcept {
  if (!active() || span.start_ns == 0 || span.duration_ns == 0) return;
  if (TRITONSERVER_InferenceTraceReportActivity == nullptr) return;
  Report(span.name, "_START", static_cast<uint64_t>(span.start_ns));
  Report(span.name, "_END", static_cast<uint64_t>(span.start_ns + span.duration_ns));
}

void RequestTrace::Report(std::string_view name, std::string_view suffix,
                          uint64_t time_ns) noexcept {
  const auto report = [&] {
    // The server finds the name of an activity by its time, so that no two may have the same.
    while (std::ranges::find(times_ns_, time_ns) != times_ns_.end()) ++time_ns;
    times_ns_.push_back(time_ns);
    const std::string activity = std::string(name).append(suffix);
    Check(TRITONSERVER_InferenceTraceReportActivity(trace_, time_ns, activity.c_str()));
  };
  LogIfFailed(Guard(report), TRITONSERVER_LOG_VERBOSE);
}

TRITONSERVER_InferenceTrace* RequestTrace::NewChild() const noexcept {
  if (!active() || TRITONSERVER_InferenceTraceSpawnChildTrace == nullptr) return nullptr;
  TRITONSERVER_InferenceTrace* child = nullptr;
  const ErrorHandle error(TRITONSERVER_InferenceTraceSpawnChildTrace(trace_, &child));
  return error == nullptr ? child : nullptr;
}

}  // namespace endcap::triton
