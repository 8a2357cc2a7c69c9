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

void SynchronousModel::RefuseOpen(std::span<PendingRequest> pending_requests,
                                  const Failure& failure) noexcept {
  for (PendingRequest& pending : pending_requests) {
    if (pending.sink.open()) Refuse(pending, failure);
  }
}

void SynchronousModel::Answer(Instance& instance, std::span<PendingRequest> pending_requests,
                              ExecutionTimes& times) noexcept {
  try {
    Execute(instance, pending_requests, times);
  } catch (...) {
    RefuseOpen(pending_requests, MakeFailureFromCurrentException());
  }
  RefuseOpen(pending_requests, kUnanswered);
}

void SynchronousModel::Serve(TRITONBACKEND_ModelInstance* handle, Instance& instance,
                             std::span<TRITONBACKEND_Request*> requests) noexcept {
  const uint64_t start = NowNs();
  ExecutionTimes times{start, start, start, start};
  std::vector<PendingRequest> pending_requests;
  try {
    pending_requests.reserve(requests.size());
    for (TRITONBACKEND_Request* request : requests) pending_requests.emplace_back(request);
  } catch (...) {
    RefuseAll(requests, MakeFailureFromCurrentException());
    return;
  }
  Answer(instance, pending_requests, times);
  times.exec_end_ns = NowNs();
  int64_t items = 0;
  for (const PendingRequest& pending : pending_requests) {
    items += pending.item_count;
    ReportRequest(handle, pending, times);
  }
  ReportExecution(handle, items, times);
  pending_requests.clear();
  for (TRITONBACKEND_Request* request : requests) Release(request);
}

}  // namespace endcap::triton
