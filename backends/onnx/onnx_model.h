#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "onnx/network_run.h"
#include "onnx/session.h"
#include "onnx/settings.h"
#include "triton_util/instance.h"
#include "triton_util/model.h"
#include "triton_util/request_threads.h"

namespace endcap::triton {

// A network of ONNX Runtime. On a CPU each request is a separate run on one of the model's
// threads, and Execute returns when the requests are queued. On a GPU, or with merge_requests, the
// requests of an execution that have equal shapes are merged into one run.
class OnnxModel final : public Model {
 public:
  // cpu_sessions: those that the config was completed from; null for a model on GPUs only.
  OnnxModel(const ModelConfig& config, const MetricFamilies& families,
            std::shared_ptr<OnnxRuntime> runtime, OnnxSettings settings,
            std::shared_ptr<SessionPair> cpu_sessions);

  std::unique_ptr<Instance> NewInstance(const ExecutionContext& execution_context) override;
  void Execute(TRITONBACKEND_ModelInstance* handle, Instance& instance,
               std::span<TRITONBACKEND_Request*> requests) noexcept override;

 private:
  struct OnnxInstance final : QueueingInstance {  // without threads requests are merged
    using QueueingInstance::QueueingInstance;
    ~OnnxInstance() override { in_flight.WaitUntilNone(); }
    std::shared_ptr<SessionPair> sessions;
  };

  bool MergesRequests(const ExecutionContext& execution_context) const noexcept;
  int CountConcurrentRuns() const noexcept;
  bool Serve(TRITONBACKEND_ModelInstance* handle, const OnnxInstance& instance,
             std::span<TRITONBACKEND_Request*> requests) noexcept;
  void RunAll(const OnnxInstance& instance, std::span<NetworkRequest> requests);
  std::vector<NetworkRequest> ReadRequests(const OnnxInstance& instance,
                                           std::span<PendingRequest> pending_requests);
  void RunMerged(const OnnxInstance& instance, std::span<NetworkRequest> requests);
  void RunEach(const OnnxInstance& instance, std::span<NetworkRequest> requests);
  void Run(const OnnxInstance& instance, std::span<NetworkRequest> requests);
  void Complete(NetworkRun& run, std::span<NetworkRequest> requests, size_t index);

  std::shared_ptr<OnnxRuntime> runtime_;
  OnnxSettings settings_;
  OrtHandle<OrtRunOptions> run_options_;
  SharedByDevice<SessionPair> sessions_;
  SharedByDevice<RequestThreads> threads_;
  std::shared_ptr<SessionPair> cpu_sessions_;  // until the first instance on the CPU takes them
  std::once_flag first_run_;
  Counter runs_;
  Counter shared_runs_;
};

}  // namespace endcap::triton
