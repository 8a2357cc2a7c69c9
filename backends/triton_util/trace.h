#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "triton_util/triton_api.h"

namespace endcap::triton {

// A part of the work on one request: its name, its start by the steady clock, and its duration.
struct TraceSpan {
  std::string_view name;  // without "_START" and "_END"
  int64_t start_ns;
  int64_t duration_ns;
};

// Triton's trace of one request. It is inactive if the server does not trace the request, is built
// without traces, or is older than the functions for them: then it reports nothing, and is silent
// about it. Valid until the request is released. Used by one thread at a time.
class RequestTrace {
 public:
  explicit RequestTrace(TRITONBACKEND_Request* request) noexcept;

  bool active() const noexcept { return trace_ != nullptr; }

  // Adds a span below the span of the request's model: the activities <name>_START and <name>_END.
  // Spans may overlap. Ignores one without a start or a duration.
  void AddSpan(const TraceSpan& span) noexcept;

  // Creates a trace for a request to another model, to be passed to TRITONSERVER_ServerInferAsync;
  // null if there is none. The request of this trace must be released after that one.
  TRITONSERVER_InferenceTrace* NewChild() const noexcept;

 private:
  void Report(std::string_view name, std::string_view suffix, uint64_t time_ns) noexcept;

  TRITONSERVER_InferenceTrace* trace_ = nullptr;
  std::vector<uint64_t> times_ns_;  // of the activities
};

}  // namespace endcap::triton
