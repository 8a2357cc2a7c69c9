#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "endcap/cuda.h"
#include "triton_util/instance.h"
#include "triton_util/model.h"
#include "triton_util/request_threads.h"
#include "triton_util/response.h"
#include "triton_util/trace.h"

namespace endcap::triton {

// One request of a batch: the inputs of the core's call and its results.
template <typename Input, typename Output, typename Item>
struct Job {
  Job(PendingRequest& owner, const ExecutionContext& execution_context, bool batched) noexcept
      : pending(&owner), results(owner.request, owner.sink, execution_context, batched) {}

  PendingRequest* pending;
  std::vector<InputTensor> tensors;               // own the memory of `inputs`
  std::vector<Input> inputs;                      // one per item
  std::vector<Output> outputs;                    // one per item
  RequestOutputs results;                         // own the memory of `outputs`
  std::vector<std::vector<std::string>> strings;  // one list per item, for outputs of strings
  std::span<const Item> items;                    // one per item, after the call
};

// The failure of an item; for a request of several images the message has its index.
inline Failure MakeItemFailure(const ItemStatus& status, size_t index, size_t count) {
  std::string message = status.message;
  if (count > 1) {
    message =
        "image index " + std::to_string(index) + " of " + std::to_string(count) + ": " + message;
  }
  return {ToTriton(status.code), status.code, std::move(message)};
}

// A model whose requests are processed by the core. If RequestThreadCount is 0, the requests of a
// batch share one call of the core, and Execute returns when they are released. Otherwise that many
// threads serve one request each, with a call of its own; Execute returns when they are queued, and
// no request waits for another one of its batch.
template <typename Input, typename Output, typename Item>
class CoreModel : public ProcessingModel {
 public:
  using ProcessingModel::ProcessingModel;
  using JobType = Job<Input, Output, Item>;
  // The core's call; on a GPU it may be asynchronous on the instance's stream.
  using Engine =
      std::function<std::vector<Item>(std::span<const Input> inputs, std::span<const Output>)>;

  std::unique_ptr<Instance> NewInstance(const ExecutionContext& execution_context) final {
    auto instance =
        std::make_unique<BatchInstance>(execution_context, NewEngine(execution_context));
    if (const int count = RequestThreadCount(execution_context); count > 0) {
      instance->threads = threads_.Get(SharedByDevice<RequestExecutor>::kCpu,
                                       [&] { return NewRequestExecutor(count); });
      if (Engine engine = NewBackgroundEngine()) {
        instance->background =
            std::make_unique<BatchInstance>(execution_context, std::move(engine));
      }
    }
    return instance;
  }

  void Execute(TRITONBACKEND_ModelInstance* handle, Instance& instance,
               std::span<TRITONBACKEND_Request*> requests) noexcept final {
    auto& batch_instance = static_cast<BatchInstance&>(instance);
    if (batch_instance.threads == nullptr) {
      ProcessingModel::Execute(handle, instance, requests);
      return;
    }
    for (TRITONBACKEND_Request* request : requests) {
      batch_instance.in_flight.Enter(1, SIZE_MAX);
      batch_instance.threads->Enqueue({handle, &instance, request});
    }
  }

  void Process(Instance& instance, std::span<PendingRequest> pending_requests,
               ExecutionTimes& times) final {
    auto& batch_instance = static_cast<BatchInstance&>(instance);
    std::vector<JobType> jobs;
    jobs.reserve(pending_requests.size());
    for (PendingRequest& pending : pending_requests) {
      Attempt(pending, [&] {
        if (!Begin(pending) || RespondIfCancelled(pending)) return;
        JobType job(pending, instance.execution_context(), batched());
        Prepare(job, instance.execution_context());
        jobs.push_back(std::move(job));
      });
    }
    times.compute_start_ns = times.compute_end_ns = NowNs();
    const EndAll end_all{*this, pending_requests};
    if (!jobs.empty()) Compute(batch_instance, jobs, times);
  }

 protected:
  // The first step of every request, of cancelled ones as well. Returns whether it is to be
  // processed; if not, it has been responded to.
  virtual bool Begin(PendingRequest& pending) {
    static_cast<void>(pending);
    return true;
  }
  // The last step of every request, of failed ones as well. A model may take it earlier.
  virtual void End(PendingRequest& pending) noexcept { static_cast<void>(pending); }
  // Returns the function that calls the core on that device.
  virtual Engine NewEngine(const ExecutionContext& execution_context) = 0;
  // Returns the number of threads, for all instances together, that serve one request each; they
  // call the engine at the same time. 0: one call of the engine for each batch.
  virtual int RequestThreadCount(const ExecutionContext& execution_context) const noexcept {
    static_cast<void>(execution_context);
    return 0;
  }
  // Returns the threads that serve one request each, for all instances together.
  virtual std::shared_ptr<RequestExecutor> NewRequestExecutor(int count) {
    return std::make_shared<RequestThreads>(
        count, [this](const RequestTask& task) { ServeOne(task, /*in_background=*/false); });
  }
  // Returns the function that calls the core for requests that are served in the background; null
  // for a model that has none.
  virtual Engine NewBackgroundEngine() { return nullptr; }
  // Reads the request and allocates its outputs: fills tensors, inputs, outputs and results.
  virtual void Prepare(JobType& job, const ExecutionContext& execution_context) = 0;
  // Counts the stage's own metrics of one call.
  virtual void Count(std::span<const Item> items) { static_cast<void>(items); }
  // Adds the stages of an item to the trace of its request.
  virtual void Trace(const Item& item, RequestTrace& trace) const noexcept {
    static_cast<void>(item);
    static_cast<void>(trace);
  }
  // Whether a failed item is reported by its `status` output instead of an error.
  virtual bool ToleratesFailedItems() const noexcept { return false; }
  // Adds the remaining outputs to a response without an error.
  virtual void Complete(JobType& job, const ExecutionContext& execution_context) {
    static_cast<void>(job);
    static_cast<void>(execution_context);
  }

  // Serves a request of Enqueue. Returns whether all of its items succeeded.
  bool ServeOne(const RequestTask& task, bool in_background) noexcept {
    TRITONBACKEND_Request* request = task.request;
    auto& owner = static_cast<BatchInstance&>(*task.instance);
    const bool succeeded =
        ExecuteAll(task.handle, in_background ? *owner.background : owner, std::span(&request, 1));
    owner.in_flight.Leave(1);
    return succeeded;
  }

  // Responds to a request of Enqueue with an error and releases it. Logs and counts nothing.
  void RefuseOne(const RequestTask& task, const Failure& failure) noexcept {
    const uint64_t now = NowNs();
    {
      PendingRequest pending(task.request);
      pending.sink.Fail(failure);
      ReportRequest(task.handle, pending, {now, now, now, now});
    }
    ReleaseRequest(task.request);
    static_cast<BatchInstance&>(*task.instance).in_flight.Leave(1);
  }

 private:
  struct BatchInstance final : Instance {
    BatchInstance(const ExecutionContext& context, Engine run)
        : Instance(context), engine(std::move(run)) {}
    ~BatchInstance() override { in_flight.WaitUntilNone(); }
    Engine engine;
    std::unique_ptr<BatchInstance> background;  // null: no request is served there
    InFlight in_flight;                         // requests of this instance in `threads`
    std::shared_ptr<RequestExecutor> threads;   // null: one call for each batch
  };

  // Calls End for all requests, also when an exception leaves Process.
  struct EndAll {
    CoreModel& model;
    std::span<PendingRequest> pending_requests;
    ~EndAll() {
      for (PendingRequest& pending : pending_requests) model.End(pending);
    }
  };

  void Compute(BatchInstance& batch_instance, std::span<JobType> jobs, ExecutionTimes& times) {
    const std::vector<Item> items = RunAll(batch_instance, jobs);  // owns what job.items views
    times.compute_end_ns = NowNs();
    for (JobType& job : jobs) {
      Attempt(*job.pending, [&] { Finish(job, batch_instance.execution_context()); });
      TraceItems(job);
    }
  }

  template <typename Body>
  void Attempt(PendingRequest& pending, const Body& body) noexcept {
    try {
      body();
    } catch (...) {
      FailRequest(pending, MakeFailureFromCurrentException());
    }
  }

  static void Synchronize(const ExecutionContext& execution_context) {
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
      // The server frees the memory of a response when it is sent, so no kernel may still write it.
      Synchronize(instance.execution_context());
      throw;
    }
    Synchronize(instance.execution_context());
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
    if (RespondIfCancelled(*job.pending)) return;
    const size_t count = job.items.size();
    size_t ok_count = 0;
    size_t first_failed = count;  // the first item that fails the request
    for (size_t i = 0; i < count; ++i) {
      const ItemStatus& status = job.items[i].status;
      if (status.ok()) {
        ++ok_count;
        continue;
      }
      counters().CountFailure(status.code);
      if (first_failed == count && !ToleratesFailedItems()) first_failed = i;
    }
    counters().CountImages(ok_count);
    job.pending->failed_count = static_cast<int64_t>(count - ok_count);
    if (first_failed < count) {
      SendError(*job.pending, MakeItemFailure(job.items[first_failed].status, first_failed, count));
      return;
    }
    Complete(job, execution_context);
    job.pending->sink.Send();
  }

  // After the response is sent: the request does not wait for its trace.
  void TraceItems(const JobType& job) const noexcept {
    RequestTrace trace(job.pending->request.handle());
    if (!trace.active()) return;
    for (const Item& item : job.items.first(std::min(job.items.size(), kMostTracedItems))) {
      Trace(item, trace);
    }
  }

  // The server's work for an activity grows with the number of those before it.
  static constexpr size_t kMostTracedItems = 16;

  SharedByDevice<RequestExecutor> threads_;
};

}  // namespace endcap::triton
