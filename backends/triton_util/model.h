#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/params.h"
#include "triton_util/errors.h"
#include "triton_util/instance.h"
#include "triton_util/metrics.h"
#include "triton_util/model_config.h"
#include "triton_util/request.h"
#include "triton_util/response.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// A request and its response, until the request is released.
struct PendingRequest {
  explicit PendingRequest(TRITONBACKEND_Request* handle) noexcept : request(handle), sink(handle) {}

  Request request;
  ResponseSink sink;
  int64_t item_count = 0;       // items that were computed
  int64_t failed_count = 0;     // those of them that failed
  std::shared_ptr<void> state;  // the model's own
};

// The times of an execution for Triton's statistics, see NowNs. The computation's times are those
// of the start if it was not reached.
struct ExecutionTimes {
  uint64_t exec_start_ns = 0;
  uint64_t compute_start_ns = 0;
  uint64_t compute_end_ns = 0;
  uint64_t exec_end_ns = 0;
};

// Returns the time of the clock of Triton's statistics: steady, nanoseconds.
uint64_t NowNs() noexcept;
// Reports a request, which must not be released yet.
void ReportRequest(TRITONBACKEND_ModelInstance* instance, const PendingRequest& pending,
                   const ExecutionTimes& times) noexcept;
// Reports an execution that computed that many items; nothing is reported for 0.
void ReportExecution(TRITONBACKEND_ModelInstance* instance, int64_t items,
                     const ExecutionTimes& times) noexcept;

// Releases a request; the server then frees its memory. An error of the server is logged.
void ReleaseRequest(TRITONBACKEND_Request* request) noexcept;
// Responds with an error to requests and releases them. Allocates no memory.
void FailAndRelease(std::span<TRITONBACKEND_Request*> requests, const Failure& failure) noexcept;

// One loaded model, which its instances share. Execute may run on several threads at the same time.
class Model {
 public:
  Model(const ModelConfig& config, const MetricFamilies& families);
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Creates an instance; may be called while other instances execute. Throws with an error message
  // if the model cannot run on that device.
  virtual std::unique_ptr<Instance> NewInstance(const ExecutionContext& execution_context) = 0;

  // Takes ownership of the requests. Each gets one response, is reported, and is released once,
  // before this returns or later. instance: one of NewInstance's; handle: the server's object for
  // it.
  virtual void Execute(TRITONBACKEND_ModelInstance* handle, Instance& instance,
                       std::span<TRITONBACKEND_Request*> requests) noexcept = 0;

  // Responds with an error and logs it: as a warning, for a cancelled request as an info.
  void SendError(PendingRequest& pending, const Failure& failure) noexcept;
  // The same, and counts a failed request.
  void FailRequest(PendingRequest& pending, const Failure& failure) noexcept;
  // If the client has cancelled, responds with CANCELLED, logs and counts it. Returns whether it
  // has.
  bool RespondIfCancelled(PendingRequest& pending);

 protected:
  // Calls process(pending_requests, times), which responds to the requests and sets the times of
  // the computation; an exception fails those without a response. Then reports and releases them.
  // Returns whether nothing of them failed.
  template <typename Process>
  bool ServeRequests(TRITONBACKEND_ModelInstance* handle,
                     std::span<TRITONBACKEND_Request*> requests, const Process& process) noexcept;
  // Calls `body`; an exception fails the request.
  template <typename Body>
  void Attempt(PendingRequest& pending, const Body& body) noexcept;

  const std::string& label() const noexcept { return label_; }
  void LogParameters(const std::vector<ParameterInfo>& parameters) const;
  bool batched() const noexcept { return batched_; }
  StageCounters& counters() noexcept { return counters_; }
  const MetricLabels& metric_labels() const noexcept { return metric_labels_; }

 private:
  // Fails the requests without a response; failure: null where no exception tells why.
  void FailWithoutResponse(std::span<PendingRequest> pending_requests,
                           const Failure* failure = nullptr) noexcept;
  // Reports the requests and their execution. Returns whether nothing of them failed.
  static bool ReportAll(TRITONBACKEND_ModelInstance* handle,
                        std::span<const PendingRequest> pending_requests,
                        const ExecutionTimes& times) noexcept;

  std::string label_;  // "model 'preprocess' version 1"
  bool batched_;       // tensors have a batch dimension
  MetricLabels metric_labels_;
  StageCounters counters_;
};

template <typename Process>
bool Model::ServeRequests(TRITONBACKEND_ModelInstance* handle,
                          std::span<TRITONBACKEND_Request*> requests,
                          const Process& process) noexcept {
  const uint64_t start = NowNs();
  ExecutionTimes times{start, start, start, start};
  std::vector<PendingRequest> pending_requests;
  try {
    pending_requests.reserve(requests.size());
    for (TRITONBACKEND_Request* request : requests) pending_requests.emplace_back(request);
  } catch (...) {
    FailAndRelease(requests, MakeFailureFromCurrentException());
    return false;
  }
  try {
    process(std::span(pending_requests), times);
    FailWithoutResponse(pending_requests);
  } catch (...) {
    const Failure failure = MakeFailureFromCurrentException();
    FailWithoutResponse(pending_requests, &failure);
  }
  times.exec_end_ns = NowNs();
  const bool succeeded = ReportAll(handle, pending_requests, times);
  pending_requests.clear();
  for (TRITONBACKEND_Request* request : requests) ReleaseRequest(request);
  return succeeded;
}

template <typename Body>
void Model::Attempt(PendingRequest& pending, const Body& body) noexcept {
  try {
    body();
  } catch (...) {
    FailRequest(pending, MakeFailureFromCurrentException());
  }
}

// One backend as the server loaded it; creates models.
class Backend {
 public:
  Backend(std::string_view name, const std::vector<MetricInfo>& metrics)
      : families_(name, metrics) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // Throws with an error message for a config that is unknown or impossible.
  virtual std::unique_ptr<Model> Load(ModelConfig& config) const = 0;

 protected:
  const MetricFamilies& families() const noexcept { return families_; }

 private:
  MetricFamilies families_;
};

// Defined once by each backend's library.
std::unique_ptr<Backend> CreateBackend();

}  // namespace endcap::triton
