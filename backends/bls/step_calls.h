#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "bls/item_tensors.h"
#include "triton_util/composing_call.h"
#include "triton_util/metrics.h"
#include "triton_util/worker.h"

namespace endcap::triton {

// Items for one composing model, and the calls that process them.
class CallPlan {
 public:
  virtual ~CallPlan() = default;

  // The request of each item; items of one request are adjacent.
  const std::vector<size_t>& owners() const noexcept { return owners_; }
  // Returns the most items in one call. Throws ComposingModelError if the model does not exist.
  virtual size_t MaxItemsPerCall() const = 0;
  // Creates a call with these items. Throws ComposingModelError.
  virtual std::shared_ptr<ComposingCall> NewCall(const bls::Range& items) const = 0;
  // Reads the response. Throws ComposingModelError if it cannot be used.
  virtual void ReadResponse(const bls::Range& items,
                            const std::shared_ptr<ComposingCall>& call) = 0;

 protected:
  std::vector<size_t> owners_;
};

// The concurrent calls of one step. If a call with items of several requests fails, it is repeated
// for each request alone, so that only requests with a failing item fail. Used on the worker's
// thread only, which never waits.
class StepCalls {
 public:
  using IsOpen = std::function<bool(size_t request)>;  // whether its items are still needed
  using Fail = std::function<void(size_t request, const Failure& failure)>;  // must not throw

  // then: runs at the end of each step; must not throw.
  StepCalls(Worker& worker, Counter& counter, IsOpen is_open, Fail fail, Worker::Task then);

  // Begins a step. It ends when the response for every item is read or its request has failed.
  // owner: kept by the calls; owns this object.
  void Run(std::vector<std::unique_ptr<CallPlan>> plans,
           const std::shared_ptr<void>& owner) noexcept;

  // Cancels the calls that no open request needs.
  void CancelUnneeded() noexcept;

 private:
  struct Pending {
    CallPlan* plan = nullptr;
    bls::Range items;
    std::shared_ptr<ComposingCall> call;
    bool cancelled = false;
  };
  using Position = std::list<Pending>::iterator;

  void StartAll(CallPlan& plan, const std::shared_ptr<void>& owner) noexcept;
  void Start(CallPlan& plan, const bls::Range& items, const std::shared_ptr<void>& owner) noexcept;
  void OnDone(Position position, const std::shared_ptr<void>& owner) noexcept;
  void OnFailure(CallPlan& plan, const bls::Range& items, const Failure& failure,
                 const std::shared_ptr<void>& owner) noexcept;
  bool IsNeeded(const CallPlan& plan, const bls::Range& items) const;
  void End() noexcept;

  Worker& worker_;
  Counter& counter_;
  IsOpen is_open_;
  Fail fail_;
  Worker::Task then_;
  std::vector<std::unique_ptr<CallPlan>> plans_;
  std::list<Pending> pending_;
};

}  // namespace endcap::triton
