#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
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

// One request of a call of the core: its inputs and its results.
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
  std::vector<std::vector<std::string>> files;    // likewise, one file in each list
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

// A model whose requests are processed by the core: they are read, run and responded to (Serve).
// With an instance that has threads each request has a call of the core, on one of them, and
// Execute returns when the requests are queued; else the requests of a batch share one call, and
// Execute returns when they are released.
template <typename Input, typename Output, typename Item>
class CoreModel : public Model {
 public:
  using Model::Model;
  using JobType = Job<Input, Output, Item>;
  // The core's call; on a GPU it may be asynchronous on the instance's stream.
  using Engine =
      std::function<std::vector<Item>(std::span<const Input> inputs, std::span<const Output>)>;

  void Execute(TRITONBACKEND_ModelInstance* handle, Instance& instance,
               std::span<TRITONBACKEND_Request*> requests) noexcept final {
    auto& core_instance = static_cast<CoreInstance&>(instance);
    if (core_instance.Enqueue(handle, requests)) return;
    Serve(handle, core_instance, core_instance.engine, requests);
  }

 protected:
  struct CoreInstance final : QueueingInstance {
    CoreInstance(const ExecutionContext& context, Engine run)
        : QueueingInstance(context), engine(std::move(run)) {}
    ~CoreInstance() override { in_flight.WaitUntilNone(); }
    Engine engine;
    Engine background;  // for requests that the threads serve in the background
  };

  // Reads the request and allocates its outputs: fills tensors, inputs, outputs and results. A
  // request that is responded to here is not run.
  virtual void Read(JobType& job, const ExecutionContext& execution_context) = 0;
  // Adds the remaining outputs to a response without an error, before it is sent.
  virtual void Complete(JobType& job, const ExecutionContext& execution_context) {
    static_cast<void>(job);
    static_cast<void>(execution_context);
  }
  // Adds the stages of an item to the trace of its request.
  virtual void Trace(const Item& item, RequestTrace& trace) const noexcept {
    static_cast<void>(item);
    static_cast<void>(trace);
  }
  // A failed item is reported by its `status` output instead of an error.
  void set_tolerates_failed_items(bool tolerates) noexcept { tolerates_failed_items_ = tolerates; }

  // Serves a request of the instance's threads. Returns whether all of its items succeeded.
  bool ServeOne(const RequestTask& task, bool in_background) noexcept {
    auto& instance = static_cast<CoreInstance&>(*task.instance);
    TRITONBACKEND_Request* request = task.request;
    const Engine& engine = in_background ? instance.background : instance.engine;
    const bool succeeded = Serve(task.handle, instance, engine, std::span(&request, 1));
    instance.in_flight.Leave(1);
    return succeeded;
  }

 private:
  bool Serve(TRITONBACKEND_ModelInstance* handle, CoreInstance& instance, const Engine& engine,
             std::span<TRITONBACKEND_Request*> requests) noexcept {
    const ExecutionContext& context = instance.execution_context();
    return ServeRequests(handle, requests, [&](auto pending_requests, ExecutionTimes& times) {
      std::vector<JobType> jobs;
      jobs.reserve(pending_requests.size());
      for (PendingRequest& pending : pending_requests) {
        Attempt(pending, [&] {
          JobType job(pending, context, batched());
          Read(job, context);
          if (!pending.sink.open() || RespondIfCancelled(pending)) return;
          jobs.push_back(std::move(job));
        });
      }
      times.compute_start_ns = times.compute_end_ns = NowNs();
      if (jobs.empty()) return;
      const std::vector<Item> items = Run(engine, jobs, context);  // owns what job.items views
      times.compute_end_ns = NowNs();
      for (JobType& job : jobs) {
        Attempt(*job.pending, [&] { Respond(job, context); });
        TraceItems(job);
      }
    });
  }

  std::vector<Item> Run(const Engine& engine, std::span<JobType> jobs,
                        const ExecutionContext& context) {
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    for (const JobType& job : jobs) {
      inputs.insert(inputs.end(), job.inputs.begin(), job.inputs.end());
      outputs.insert(outputs.end(), job.outputs.begin(), job.outputs.end());
    }
    const auto synchronize = [&] {
      if (context.on_gpu()) SynchronizeCuda(context.target());
    };
    std::vector<Item> items;
    try {
      items = engine(inputs, outputs);
      for (JobType& job : jobs) job.results.Copy();
    } catch (...) {
      // The server frees the memory of a response when it is sent, so no kernel may still write it.
      synchronize();
      throw;
    }
    synchronize();
    std::span<const Item> rest(items);
    for (JobType& job : jobs) {
      job.results.Finish();
      job.pending->item_count = static_cast<int64_t>(job.inputs.size());
      job.items = rest.first(job.inputs.size());
      rest = rest.subspan(job.inputs.size());
    }
    return items;
  }

  void Respond(JobType& job, const ExecutionContext& context) {
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
      if (first_failed == count && !tolerates_failed_items_) first_failed = i;
    }
    counters().CountImages(ok_count);
    job.pending->failed_count = static_cast<int64_t>(count - ok_count);
    if (first_failed < count) {
      SendError(*job.pending, MakeItemFailure(job.items[first_failed].status, first_failed, count));
      return;
    }
    Complete(job, context);
    job.pending->sink.Send();
  }

  // After the response is sent: the request does not wait for its trace.
  void TraceItems(const JobType& job) const noexcept {
    RequestTrace trace(job.pending->request.handle());
    if (!trace.active()) return;
    for (const Item& item : job.items.first(std::min(job.items.size(), kMaxTracedItems))) {
      Trace(item, trace);
    }
  }

  // The server's work for an activity grows with the number of those before it.
  static constexpr size_t kMaxTracedItems = 16;

  bool tolerates_failed_items_ = false;
};

}  // namespace endcap::triton
