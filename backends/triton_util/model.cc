#include "triton_util/model.h"

#include <chrono>

namespace endcap::triton {
namespace {

// Allocated when the library is loaded, so that none of it is needed when memory is exhausted.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
const Failure kNoResponse{TRITONSERVER_ERROR_INTERNAL, ErrorCode::kInternal,
                          "the backend sent no response to the request"};

}  // namespace

uint64_t NowNs() noexcept {
  const auto since_epoch = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count());
}

void ReportRequest(TRITONBACKEND_ModelInstance* instance, const PendingRequest& pending,
                   const ExecutionTimes& times) noexcept {
  LogIfFailed(TRITONBACKEND_ModelInstanceReportStatistics(
      instance, pending.request.handle(), pending.sink.succeeded(), times.exec_start_ns,
      times.compute_start_ns, times.compute_end_ns, times.exec_end_ns));
}

void ReportExecution(TRITONBACKEND_ModelInstance* instance, int64_t items,
                     const ExecutionTimes& times) noexcept {
  if (items == 0) return;
  LogIfFailed(TRITONBACKEND_ModelInstanceReportBatchStatistics(
      instance, static_cast<uint64_t>(items), times.exec_start_ns, times.compute_start_ns,
      times.compute_end_ns, times.exec_end_ns));
}

void ReleaseRequest(TRITONBACKEND_Request* request) noexcept {
  LogIfFailed(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
}

void FailAndRelease(std::span<TRITONBACKEND_Request*> requests, const Failure& failure) noexcept {
  for (TRITONBACKEND_Request* request : requests) {
    ResponseSink(request).Fail(failure);
    ReleaseRequest(request);
  }
}

Model::Model(const ModelConfig& config, const MetricFamilies& families)
    : label_("model '" + config.name() + "' version " + std::to_string(config.version())),
      batched_(config.max_batch_size() > 0),
      metric_labels_{{"model", config.name()}, {"version", std::to_string(config.version())}},
      counters_(families, metric_labels_) {}

void Model::SendError(PendingRequest& pending, const Failure& failure) noexcept {
  pending.sink.Fail(failure);
  const auto level =
      failure.code == TRITONSERVER_ERROR_CANCELLED ? TRITONSERVER_LOG_INFO : TRITONSERVER_LOG_WARN;
  LogIfFailed(Guard([&] {
                Log(level, label_ + ", " + pending.request.Label() + ": " + Describe(failure));
              }),
              level);
}

void Model::FailRequest(PendingRequest& pending, const Failure& failure) noexcept {
  if (failure.IsOfUnavailableModel()) {
    counters_.CountUnavailable();
  } else {
    counters_.CountFailure(failure.reason);
  }
  SendError(pending, failure);
}

bool Model::RespondIfCancelled(PendingRequest& pending) {
  if (!pending.request.IsCancelled()) return false;
  counters_.CountCancelled();
  SendError(pending, {TRITONSERVER_ERROR_CANCELLED, ErrorCode::kOk, "the request was cancelled"});
  return true;
}

void Model::LogParameters(const std::vector<ParameterInfo>& parameters) const {
  std::string line = label_ + " takes";
  for (const ParameterInfo& info : parameters) {
    line.append(" ").append(info.name).append("=").append(info.value);
  }
  Log(TRITONSERVER_LOG_INFO, line);
}

bool Model::ReportAll(TRITONBACKEND_ModelInstance* handle,
                      std::span<const PendingRequest> pending_requests,
                      const ExecutionTimes& times) noexcept {
  int64_t items = 0;
  bool succeeded = true;
  for (const PendingRequest& pending : pending_requests) {
    items += pending.item_count;
    succeeded = succeeded && pending.sink.succeeded() && pending.failed_count == 0;
    ReportRequest(handle, pending, times);
  }
  ReportExecution(handle, items, times);
  return succeeded;
}

void Model::FailWithoutResponse(std::span<PendingRequest> pending_requests,
                                const Failure* failure) noexcept {
  for (PendingRequest& pending : pending_requests) {
    if (pending.sink.open()) FailRequest(pending, failure == nullptr ? kNoResponse : *failure);
  }
}

}  // namespace endcap::triton
