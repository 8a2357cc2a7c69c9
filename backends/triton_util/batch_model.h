#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "triton_util/model.h"
#include "triton_util/statistics.h"

namespace endcap::triton {

// One request's part of a batch: what goes into the core's call, and what came of it.
template <typename Input, typename Output, typename Item>
struct Job {
  explicit Job(Exchange& owner) noexcept : exchange(&owner) {}

  Exchange* exchange;
  std::vector<InputTensor> tensors;  // what `inputs` point into
  std::vector<Input> inputs;         // one per item
  std::vector<Output> outputs;       // one per item, in the response's memory
  std::vector<std::byte> scratch;    // for a result that the request did not ask for
  std::span<const Item> items;       // one per item, after the call
};

// The message for a request of several images names the one that failed.
Failure FailureOfItem(const ItemStatus& status, size_t index, size_t count);

// A model whose requests all go through the core in one call.
template <typename Input, typename Output, typename Item>
class BatchModel : public Model {
 public:
  using Model::Model;
  using JobType = Job<Input, Output, Item>;

  void Execute(std::span<Exchange> exchanges, ExecutionTimes& times) final {
    std::vector<JobType> jobs;
    jobs.reserve(exchanges.size());
    for (Exchange& exchange : exchanges) {
      Attempt(exchange, [&] {
        if (AnswerIfCancelled(exchange)) return;
        JobType job(exchange);
        Prepare(job);
        jobs.push_back(std::move(job));
      });
    }
    times.compute_start_ns = times.compute_end_ns = NowNs();
    if (jobs.empty()) return;
    const std::vector<Item> items = RunAll(jobs);
    times.compute_end_ns = NowNs();
    for (JobType& job : jobs) {
      Attempt(*job.exchange, [&] { Finish(job); });
    }
  }

 protected:
  // Reads the request and allocates its outputs: fills tensors, inputs, outputs and scratch.
  virtual void Prepare(JobType& job) = 0;
  // The core's call.
  virtual std::vector<Item> Run(std::span<const Input> inputs, std::span<const Output> outputs) = 0;
  // Whether a failed item is answered by its `status` output instead of an error.
  virtual bool ToleratesFailedItems() const noexcept { return false; }
  // Adds what is left to a good response, and counts the stage's own metrics.
  virtual void Complete(JobType& job) { static_cast<void>(job); }

 private:
  template <typename Body>
  void Attempt(Exchange& exchange, const Body& body) noexcept {
    try {
      body();
    } catch (...) {
      Refuse(exchange, FailureOfCurrentException());
    }
  }

  std::vector<Item> RunAll(std::span<JobType> jobs) {
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    for (const JobType& job : jobs) {
      inputs.insert(inputs.end(), job.inputs.begin(), job.inputs.end());
      outputs.insert(outputs.end(), job.outputs.begin(), job.outputs.end());
    }
    std::vector<Item> items = Run(inputs, outputs);
    std::span<const Item> rest(items);
    for (JobType& job : jobs) {
      job.exchange->item_count = static_cast<int64_t>(job.inputs.size());
      job.items = rest.first(job.inputs.size());
      rest = rest.subspan(job.inputs.size());
    }
    return items;
  }

  void Finish(JobType& job) {
    if (AnswerIfCancelled(*job.exchange)) return;
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
      Fail(*job.exchange, FailureOfItem(job.items[culprit].status, culprit, count));
      return;
    }
    Complete(job);
    job.exchange->sink.Send();
  }
};

}  // namespace endcap::triton
