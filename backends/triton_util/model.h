#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/params.h"
#include "triton_util/error_guard.h"
#include "triton_util/instance.h"
#include "triton_util/metrics.h"
#include "triton_util/model_config.h"
#include "triton_util/request.h"
#include "triton_util/response_sink.h"

namespace endcap::triton {

// One request on its way through an execution.
struct PendingRequest {
  explicit PendingRequest(TRITONBACKEND_Request* handle) noexcept : request(handle), sink(handle) {}

  Request request;
  ResponseSink sink;
  int64_t item_count = 0;  // items that took part in the computation
};

// When the phases of an execution began and ended, see NowNs. The computation's times fall back to
// the begin of the execution where it never came so far.
struct ExecutionTimes {
  uint64_t exec_start_ns = 0;
  uint64_t compute_start_ns = 0;
  uint64_t compute_end_ns = 0;
  uint64_t exec_end_ns = 0;
};

// One loaded model, shared by its instances; Serve may run on several threads at a time.
class Model {
 public:
  Model(const ModelConfig& config, const MetricFamilies& families);
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Makes what an instance at that execution_context needs. May be called while others execute.
  // Throws with an error message when it cannot work there.
  virtual std::unique_ptr<Instance> NewInstance(const ExecutionContext& execution_context) = 0;

  // Takes the requests that the server handed over: each is answered once, reported, and released
  // once, whatever happens on the way, before this returns or later. `instance` is one of
  // NewInstance's, `handle` the server's name for it.
  virtual void Serve(TRITONBACKEND_ModelInstance* handle, Instance& instance,
                     std::span<TRITONBACKEND_Request*> requests) noexcept = 0;

  // Answers with an error and logs it: a warning, or for a cancelled request an info.
  void Fail(PendingRequest& pending, const Failure& failure) noexcept;
  // The same, and counts it; for a request that failed as a whole.
  void Refuse(PendingRequest& pending, const Failure& failure) noexcept;
  // Answers with CANCELLED, logs and counts it, where the client has gone; returns whether it has.
  bool AnswerIfCancelled(PendingRequest& pending);

 protected:
  const std::string& label() const noexcept { return label_; }
  void LogParameters(const std::vector<ParameterInfo>& parameters) const;
  bool batched() const noexcept { return batched_; }
  StageCounters& counters() noexcept { return counters_; }
  const MetricLabels& metric_labels() const noexcept { return metric_labels_; }

 private:
  std::string label_;  // "model 'preprocess' version 1"
  bool batched_;       // tensors have a batch dimension
  MetricLabels metric_labels_;
  StageCounters counters_;
};

// A model that answers its requests in one go: they are answered when this Serve returns.
class SynchronousModel : public Model {
 public:
  using Model::Model;

  void Serve(TRITONBACKEND_ModelInstance* handle, Instance& instance,
             std::span<TRITONBACKEND_Request*> requests) noexcept override;

 protected:
  // Answers every pending, and sets the times of the computation. What it throws goes to the
  // pending_requests that are still open.
  virtual void Execute(Instance& instance, std::span<PendingRequest> pending_requests,
                       ExecutionTimes& times) = 0;

 private:
  void Answer(Instance& instance, std::span<PendingRequest> pending_requests,
              ExecutionTimes& times) noexcept;
  void RefuseOpen(std::span<PendingRequest> pending_requests, const Failure& failure) noexcept;
};

// One backend as the server loaded it: makes models.
class Backend {
 public:
  Backend(std::string_view name, const std::vector<MetricInfo>& metrics)
      : families_(name, metrics) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // Throws with an error message when the config cannot be carried out.
  virtual std::unique_ptr<Model> Load(ModelConfig& config) const = 0;

 protected:
  const MetricFamilies& families() const noexcept { return families_; }

 private:
  MetricFamilies families_;
};

// Each backend's library defines this one function.
std::unique_ptr<Backend> CreateBackend();

}  // namespace endcap::triton
