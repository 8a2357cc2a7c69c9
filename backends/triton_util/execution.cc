#include "triton_util/execution.h"

#include "triton_util/log.h"
#include "triton_util/statistics.h"

namespace endcap::triton {
namespace {

// Made with the library, so that it needs no memory when there is none.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
const Failure kUnanswered{TRITONSERVER_ERROR_INTERNAL, ErrorCode::kInternal,
                          "the backend left the request without an answer"};

void RefuseOpen(Model& model, std::span<Exchange> exchanges, const Failure& failure) noexcept {
  for (Exchange& exchange : exchanges) {
    if (exchange.sink.open()) model.Refuse(exchange, failure);
  }
}

void Answer(Instance& instance, Model& model, std::span<Exchange> exchanges,
            ExecutionTimes& times) noexcept {
  try {
    model.Execute(instance, exchanges, times);
  } catch (...) {
    RefuseOpen(model, exchanges, FailureOfCurrentException());
  }
  RefuseOpen(model, exchanges, kUnanswered);
}

void Release(TRITONBACKEND_Request* request) noexcept {
  const ErrorHandle error(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
  if (error != nullptr) Log(TRITONSERVER_LOG_ERROR, TRITONSERVER_ErrorMessage(error.get()));
}

}  // namespace

void ServeRequests(TRITONBACKEND_ModelInstance* handle, Instance& instance, Model& model,
                   std::span<TRITONBACKEND_Request*> requests) noexcept {
  const uint64_t start = NowNs();
  ExecutionTimes times{start, start, start, start};
  try {
    std::vector<Exchange> exchanges(requests.begin(), requests.end());
    Answer(instance, model, exchanges, times);
    times.exec_end_ns = NowNs();
    ReportStatistics(handle, exchanges, times);
  } catch (...) {
    // Only the vector can have thrown, so no request has an answer yet.
    const Failure failure = FailureOfCurrentException();
    for (TRITONBACKEND_Request* request : requests) ResponseSink(request).Fail(failure);
  }
  for (TRITONBACKEND_Request* request : requests) Release(request);
}

}  // namespace endcap::triton
