#include "triton_util/statistics.h"

#include <chrono>

#include "triton_util/handles.h"
#include "triton_util/log.h"

namespace endcap::triton {
namespace {

void LogIfFailed(TRITONSERVER_Error* raw) noexcept {
  const ErrorHandle error(raw);
  if (error != nullptr) Log(TRITONSERVER_LOG_ERROR, TRITONSERVER_ErrorMessage(error.get()));
}

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

}  // namespace endcap::triton
