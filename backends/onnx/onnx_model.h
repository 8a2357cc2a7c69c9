#pragma once

#include <memory>
#include <span>
#include <vector>

#include "onnx/network_run.h"
#include "onnx/session.h"
#include "onnx/settings.h"
#include "triton_util/engine_pool.h"
#include "triton_util/in_flight.h"
#include "triton_util/model.h"
#include "triton_util/request_threads.h"

namespace endcap::triton {

// A network of ONNX Runtime. On a CPU each request is a run of its own on one of the model's
// threads; on a GPU, or with merge_requests, the requests that the server hands over together are
// merged where their shapes are equal.
class OnnxModel final : public SynchronousModel {
 public:
  // cpu_sessions: what the config was completed from; null for a model that is on GPUs only.
  OnnxModel(const ModelConfig& config, const MetricFamilies& families,
            std::shared_ptr<OnnxRuntime> runtime, OnnxSettings settings,
            std::shared_ptr<SessionPair> cpu_sessions);

  std::unique_ptr<Instance> NewInstance(const ExecutionContext& execution_context) override;
  void Serve(TRITONBACKEND_ModelInstance* handle, Instance& instance,
             std::span<TRITONBACKEND_Request*> requests) noexcept override;

 protected:
  void Execute(Instance& instance, std::span<PendingRequest> pending_requests,
               ExecutionTimes& times) override;

 private:
  struct OnnxInstance final : Instance {
    explicit OnnxInstance(const ExecutionContext& place) : Instance(place) {}
    ~OnnxInstance() override { under_way.WaitUntilNone(); }
    std::shared_ptr<SessionPair> sessions;
    InFlight under_way;  // requests that `threads` have
    std::shared_ptr<RequestThreads> threads;
  };

  bool MergesRequests(const ExecutionContext& execution_context) const noexcept;
  int CountConcurrentRuns() const noexcept;
  void ServeOne(const RequestThreads::Work& work) noexcept;
  std::vector<NetworkRequest> ReadRequests(const OnnxInstance& instance,
                                           std::span<PendingRequest> pending_requests);
  void RunTogether(const OnnxInstance& instance, std::span<NetworkRequest> requests);
  void RunApart(const OnnxInstance& instance, std::span<NetworkRequest> requests);
  void Run(const OnnxInstance& instance, std::span<NetworkRequest> requests);
  void Complete(NetworkRun& run, std::span<NetworkRequest> requests, size_t index);

  std::shared_ptr<OnnxRuntime> runtime_;
  OnnxSettings settings_;
  OrtHandle<OrtRunOptions> run_options_;
  EnginePool<SessionPair> sessions_;
  EnginePool<RequestThreads> threads_;
  std::shared_ptr<SessionPair> cpu_sessions_;  // until the first instance on the CPU takes them
  Counter runs_;
  Counter shared_runs_;
};

}  // namespace endcap::triton
