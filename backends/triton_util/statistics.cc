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

void ReportStatistics(TRITONBACKEND_ModelInstance* instance, std::span<const Exchange> exchanges,
                      const ExecutionTimes& times) noexcept {
  uint64_t items = 0;
  for (const Exchange& exchange : exchanges) {
    items += static_cast<uint64_t>(exchange.item_count);
    LogIfFailed(TRITONBACKEND_ModelInstanceReportStatistics(
        instance, exchange.request.handle(), exchange.sink.succeeded(), times.exec_start_ns,
        times.compute_start_ns, times.compute_end_ns, times.exec_end_ns));
  }
  if (items == 0) return;  // nothing was computed
  LogIfFailed(TRITONBACKEND_ModelInstanceReportBatchStatistics(
      instance, items, times.exec_start_ns, times.compute_start_ns, times.compute_end_ns,
      times.exec_end_ns));
}

}  // namespace endcap::triton
