#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "bls/settings.h"
#include "triton_util/in_flight.h"
#include "triton_util/inner_server.h"
#include "triton_util/model.h"
#include "triton_util/worker.h"

namespace endcap::triton {

class CascadeRun;

// An instance of a cascade is gone when nothing of it is under way any more.
class CascadeInstance final : public Instance {
 public:
  using Instance::Instance;
  ~CascadeInstance() override { runs.WaitUntilNone(); }

  InFlight runs;
};

// `encoded` -> detections, and a class for each of them that has a route: a cascade of other models
// of the same server. Serve starts the first calls and returns; a thread of this model goes on
// where calls are done, and waits for none. The next step is never begun in the server's callback:
// there the server may hold locks of the model that answered (its response cache and its
// ensembles do), and the thread is an instance of that model, which others wait for.
class CascadeModel final : public Model {
 public:
  CascadeModel(const ModelConfig& config, const MetricFamilies& families, CascadeSettings settings);
  ~CascadeModel() override;

  std::unique_ptr<Instance> NewInstance(const ExecutionContext& execution_context) override;
  void Serve(TRITONBACKEND_ModelInstance* handle, Instance& instance,
             std::span<TRITONBACKEND_Request*> requests) noexcept override;

 private:
  friend class CascadeRun;

  void LogModels() const;
  void PollCancelled();

  CascadeSettings settings_;
  InnerServer server_;
  Counter crops_;
  Counter inner_calls_;
  InFlight images_;
  std::list<CascadeRun*> runs_;  // of the worker's thread
  Worker worker_;                // the last member: ends before what it uses
};

}  // namespace endcap::triton
