#include "triton_util/execution.h"

#include <vector>

#include "triton_util/log.h"
#include "triton_util/model.h"
#include "triton_util/statistics.h"

namespace endcap::triton {
namespace {

// Made with the library, so that it needs no memory when there is none.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
const Failure kUnanswered{TRITONSERVER_ERROR_INTERNAL, ErrorCode::kInternal,
                          "the backend left the request without an answer"};

}  // namespace

void Release(TRITONBACKEND_Request* request) noexcept {
  const ErrorHandle error(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
  if (error != nullptr) Log(TRITONSERVER_LOG_ERROR, TRITONSERVER_ErrorMessage(error.get()));
}

void RefuseAll(std::span<TRITONBACKEND_Request*> requests, const Failure& failure) noexcept {
  for (TRITONBACKEND_Request* request : requests) {
    ResponseSink(request).Fail(failure);
    Release(request);
  }
}

void SynchronousModel::RefuseOpen(std::span<Exchange> exchanges, const Failure& failure) noexcept {
  for (Exchange& exchange : exchanges) {
    if (exchange.sink.open()) Refuse(exchange, failure);
  }
}

void SynchronousModel::Answer(Instance& instance, std::span<Exchange> exchanges,
                              ExecutionTimes& times) noexcept {
  try {
    Execute(instance, exchanges, times);
  } catch (...) {
    RefuseOpen(exchanges, FailureOfCurrentException());
  }
  RefuseOpen(exchanges, kUnanswered);
}

void SynchronousModel::Serve(TRITONBACKEND_ModelInstance* handle, Instance& instance,
                             std::span<TRITONBACKEND_Request*> requests) noexcept {
  const uint64_t start = NowNs();
  ExecutionTimes times{start, start, start, start};
  std::vector<Exchange> exchanges;
  try {
    exchanges.reserve(requests.size());
    for (TRITONBACKEND_Request* request : requests) exchanges.emplace_back(request);
  } catch (...) {
    RefuseAll(requests, FailureOfCurrentException());
    return;
  }
  Answer(instance, exchanges, times);
  times.exec_end_ns = NowNs();
  int64_t items = 0;
  for (const Exchange& exchange : exchanges) {
    items += exchange.item_count;
    ReportRequest(handle, exchange, times);
  }
  ReportExecution(handle, items, times);
  exchanges.clear();
  for (TRITONBACKEND_Request* request : requests) Release(request);
}

}  // namespace endcap::triton
