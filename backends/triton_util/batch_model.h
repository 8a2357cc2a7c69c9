#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "endcap/cuda.h"
#include "triton_util/engine_pool.h"
#include "triton_util/in_flight.h"
#include "triton_util/model.h"
#include "triton_util/request_outputs.h"
#include "triton_util/request_threads.h"
#include "triton_util/statistics.h"

namespace endcap::triton {

// One request's part of a batch: what goes into the core's call, and what came of it.
template <typename Input, typename Output, typename Item>
struct Job {
  Job(PendingRequest& owner, const ExecutionContext& execution_context, bool batched) noexcept
      : pending(&owner), results(owner.request, owner.sink, execution_context, batched) {}

  PendingRequest* pending;
  std::vector<InputTensor> tensors;               // what `inputs` point into
  std::vector<Input> inputs;                      // one per item
  std::vector<Output> outputs;                    // one per item
  RequestOutputs results;                         // the memory that `outputs` point into
  std::vector<std::vector<std::string>> strings;  // one list per item, where they point to some
  std::span<const Item> items;                    // one per item, after the call
};

// The message for a request of several images names the one that failed.
Failure MakeItemFailure(const ItemStatus& status, size_t index, size_t count);

// A model whose requests go through the core: those of a batch in one call, or, on an instance with
// threads for that, each in a call of its own, so that none waits for its neighbours.
template <typename Input, typename Output, typename Item>
class BatchModel : public SynchronousModel {
 public:
  using SynchronousModel::SynchronousModel;
  using JobType = Job<Input, Output, Item>;
  // The core's call; on a GPU it need not wait for the instance's stream.
  using Engine =
      std::function<std::vector<Item>(std::span<const Input> inputs, std::span<const Output>)>;

  std::unique_ptr<Instance> NewInstance(const ExecutionContext& execution_context) final {
    auto instance =
        std::make_unique<BatchInstance>(execution_context, NewEngine(execution_context));
    if (const int count = RequestThreadCount(execution_context); count > 0) {
      instance->threads = threads_.Get(EnginePool<RequestThreads>::kCpu, [&] {
        return std::make_shared<RequestThreads>(
            count, [this](const RequestThreads::Work& work) { ServeOne(work); });
      });
    }
    return instance;
  }

  void Serve(TRITONBACKEND_ModelInstance* handle, Instance& instance,
             std::span<TRITONBACKEND_Request*> requests) noexcept final {
    auto& batch_instance = static_cast<BatchInstance&>(instance);
    if (batch_instance.threads == nullptr) {
      SynchronousModel::Serve(handle, instance, requests);
      return;
    }
    for (TRITONBACKEND_Request* request : requests) {
      batch_instance.under_way.Enter(1, SIZE_MAX);
      batch_instance.threads->Take({handle, &instance, request});
    }
  }

  void Execute(Instance& instance, std::span<PendingRequest> pending_requests,
               ExecutionTimes& times) final {
    auto& batch_instance = static_cast<BatchInstance&>(instance);
    std::vector<JobType> jobs;
    jobs.reserve(pending_requests.size());
    for (PendingRequest& pending : pending_requests) {
      Attempt(pending, [&] {
        if (AnswerIfCancelled(pending)) return;
        JobType job(pending, instance.execution_context(), batched());
        Prepare(job, instance.execution_context());
        jobs.push_back(std::move(job));
      });
    }
    times.compute_start_ns = times.compute_end_ns = NowNs();
    if (jobs.empty()) return;
    const std::vector<Item> items = RunAll(batch_instance, jobs);
    times.compute_end_ns = NowNs();
    for (JobType& job : jobs) {
      Attempt(*job.pending, [&] { Finish(job, instance.execution_context()); });
    }
  }

 protected:
  // What calls the core at that execution_context.
  virtual Engine NewEngine(const ExecutionContext& execution_context) = 0;
  // Threads, for all instances together, that serve each request on its own; 0: batches stay whole.
  // The engine is then called by all of them at the same time.
  virtual int RequestThreadCount(const ExecutionContext& execution_context) const noexcept {
    static_cast<void>(execution_context);
    return 0;
  }
  // Reads the request and allocates its outputs: fills tensors, inputs, results and outputs.
  virtual void Prepare(JobType& job, const ExecutionContext& execution_context) = 0;
  // Counts the stage's own metrics of one call.
  virtual void Count(std::span<const Item> items) { static_cast<void>(items); }
  // Whether a failed item is answered by its `status` output instead of an error.
  virtual bool ToleratesFailedItems() const noexcept { return false; }
  // Adds what is left to a good response.
  virtual void Complete(JobType& job, const ExecutionContext& execution_context) {
    static_cast<void>(job);
    static_cast<void>(execution_context);
  }

 private:
  struct BatchInstance final : Instance {
    BatchInstance(const ExecutionContext& place, Engine run)
        : Instance(place), engine(std::move(run)) {}
    ~BatchInstance() override { under_way.WaitUntilNone(); }
    Engine engine;
    InFlight under_way;  // requests that `threads` have
    std::shared_ptr<RequestThreads> threads;
  };

  void ServeOne(const RequestThreads::Work& work) noexcept {
    TRITONBACKEND_Request* request = work.request;
    SynchronousModel::Serve(work.handle, *work.instance, {&request, 1});
    static_cast<BatchInstance&>(*work.instance).under_way.Leave(1);
  }

  template <typename Body>
  void Attempt(PendingRequest& pending, const Body& body) noexcept {
    try {
      body();
    } catch (...) {
      Refuse(pending, MakeFailureFromCurrentException());
    }
  }

  static void Wait(const ExecutionContext& execution_context) {
    if (execution_context.on_gpu()) SynchronizeCuda(execution_context.target());
  }

  std::vector<Item> RunAll(const BatchInstance& instance, std::span<JobType> jobs) {
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    for (const JobType& job : jobs) {
      inputs.insert(inputs.end(), job.inputs.begin(), job.inputs.end());
      outputs.insert(outputs.end(), job.outputs.begin(), job.outputs.end());
    }
    std::vector<Item> items;
    try {
      items = instance.engine(inputs, outputs);
      for (JobType& job : jobs) job.results.Copy();
    } catch (...) {
      // The server takes the memory of the responses back when they are answered.
      Wait(instance.execution_context());
      throw;
    }
    Wait(instance.execution_context());
    for (JobType& job : jobs) job.results.Finish();
    Count(items);
    std::span<const Item> rest(items);
    for (JobType& job : jobs) {
      job.pending->item_count = static_cast<int64_t>(job.inputs.size());
      job.items = rest.first(job.inputs.size());
      rest = rest.subspan(job.inputs.size());
    }
    return items;
  }

  void Finish(JobType& job, const ExecutionContext& execution_context) {
    if (AnswerIfCancelled(*job.pending)) return;
    const size_t count = job.items.size();
    size_t ok_count = 0;
    size_t culprit = count;  // the first item that fails the request
    for (size_t i = 0; i < count; ++i) {
      const ItemStatus& status = job.items[i].status;
      if (status.ok()) {
        ++ok_count;
        continue;
      }
      counters().CountFailure(status.code);
      if (culprit == count && !ToleratesFailedItems()) culprit = i;
    }
    counters().CountImages(ok_count);
    if (culprit < count) {
      Fail(*job.pending, MakeItemFailure(job.items[culprit].status, culprit, count));
      return;
    }
    Complete(job, execution_context);
    job.pending->sink.Send();
  }

  EnginePool<RequestThreads> threads_;
};

}  // namespace endcap::triton
