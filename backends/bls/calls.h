#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "bls/ranges.h"
#include "triton_util/inner_call.h"
#include "triton_util/metrics.h"

namespace endcap::triton {

// Items that go through one model of the server, several in a call.
class Work {
 public:
  virtual ~Work() = default;

  // The request of each item; items of one request beside each other.
  const std::vector<size_t>& owners() const noexcept { return owners_; }
  // Most items in one call. Throws InnerError where the model is not there.
  virtual size_t Limit() const = 0;
  // A call with these items. Throws InnerError.
  virtual std::shared_ptr<InnerCall> NewCall(const bls::Range& items) const = 0;
  // Takes the answer. Throws InnerError where it cannot be used.
  virtual void Take(const bls::Range& items, const std::shared_ptr<InnerCall>& call) = 0;

 protected:
  std::vector<size_t> owners_;
};

// The calls of one step, all under way at the same time. Where one with items of several requests
// fails, each request's items are tried again on their own, so that only those that are at fault
// fail. Everything here happens on the worker, which never waits.
class Calls {
 public:
  using IsOpen = std::function<bool(size_t request)>;  // whether its items are still needed
  using Fail = std::function<void(size_t request, const Failure& failure)>;  // must not throw

  // then: runs at the end of each step; must not throw.
  Calls(Worker& worker, Counter& counter, IsOpen is_open, Fail fail, Worker::Task then);

  // Begins a step, which ends when every item has been taken or its request has failed. `keep`
  // lives as long as a call does, and keeps this object.
  void Run(std::vector<std::unique_ptr<Work>> works, const std::shared_ptr<void>& keep) noexcept;

  // Cancels those calls that no open request needs any more.
  void CancelUnneeded() noexcept;

 private:
  struct Pending {
    Work* work = nullptr;
    bls::Range items;
    std::shared_ptr<InnerCall> call;
    bool cancelled = false;
  };
  using Place = std::list<Pending>::iterator;

  void StartAll(Work& work, const std::shared_ptr<void>& keep) noexcept;
  void Start(Work& work, const bls::Range& items, const std::shared_ptr<void>& keep) noexcept;
  void OnDone(Place place, const std::shared_ptr<void>& keep) noexcept;
  void OnFailure(Work& work, const bls::Range& items, const Failure& failure,
                 const std::shared_ptr<void>& keep) noexcept;
  bool IsNeeded(const Work& work, const bls::Range& items) const;
  void End() noexcept;

  Worker& worker_;
  Counter& counter_;
  IsOpen is_open_;
  Fail fail_;
  Worker::Task then_;
  std::vector<std::unique_ptr<Work>> works_;
  std::list<Pending> pending_;
};

}  // namespace endcap::triton
