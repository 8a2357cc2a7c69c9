#pragma once

#include <list>
#include <memory>
#include <span>

#include "endcap/cascade.h"
#include "triton_util/composing_models.h"
#include "triton_util/model.h"
#include "triton_util/request_threads.h"
#include "triton_util/worker.h"

namespace endcap::triton {

class CascadeRun;

// Waits in its destructor until all its runs have ended and all their requests are released.
class CascadeInstance final : public Instance {
 public:
  using Instance::Instance;
  ~CascadeInstance() override { in_flight.WaitUntilNone(); }

  InFlight in_flight;  // runs, and requests that are not released
};

// A cascade of composing models: `encoded` -> detections, and a class for each detection that has a
// route. Execute queues the first calls and returns; the model's worker starts each further step
// when the calls of the one before are done, and never waits for a call. No step starts in a
// callback of the server: it runs on a thread of the model that responded, and the server may hold
// a lock that the next call needs (its response cache and its ensembles do).
class CascadeModel final : public Model {
 public:
  CascadeModel(const ModelConfig& config, const MetricFamilies& families, CascadeSettings settings);
  ~CascadeModel() override;

  std::unique_ptr<Instance> NewInstance(const ExecutionContext& execution_context) override;
  // Blocks while `max_in_flight` images are in flight.
  void Execute(TRITONBACKEND_ModelInstance* handle, Instance& instance,
               std::span<TRITONBACKEND_Request*> requests) noexcept override;

 private:
  friend class CascadeRun;

  void LogModels() const;
  void PollCancelled();

  CascadeSettings settings_;
  ComposingModels models_;
  Counter crops_;
  Counter composing_calls_;
  InFlight images_;
  std::list<CascadeRun*> runs_;  // used on the worker's thread only
  Worker worker_;                // the last member: its thread uses the others
};

}  // namespace endcap::triton
