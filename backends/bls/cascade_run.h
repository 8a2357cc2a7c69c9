#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <span>

#include "bls/calls.h"
#include "bls/cascade_job.h"
#include "bls/cascade_model.h"

namespace endcap::triton {

// The requests that the server handed over together, on their way through the steps of a cascade.
// A step begins when all calls of the one before are done; a request that needs no more of them is
// answered then. Made on the instance's thread; everything after that happens on the worker.
class CascadeRun : public std::enable_shared_from_this<CascadeRun> {
 public:
  // Reads the requests. What one of them throws is its failure. Throws std::bad_alloc only, and
  // the requests are then as they were.
  CascadeRun(CascadeModel& model, TRITONBACKEND_ModelInstance* handle, CascadeInstance& instance,
             std::span<TRITONBACKEND_Request*> requests);

  // Of all its requests.
  size_t image_count() const noexcept { return job_.images.size(); }

  void Begin() noexcept;
  // Looks whether clients have gone, and cancels the calls that nobody needs then.
  void PollCancelled() noexcept;

 private:
  using Works = std::vector<std::unique_ptr<Work>>;

  void Choose();
  Works RoisWorks();

  void Detected();
  void CutOut();
  void Classified();

  // Runs the works that `plan` makes, then `then`. What it throws fails all open requests.
  void Run(const std::function<Works()>& plan, void (CascadeRun::*then)()) noexcept;
  // Answers the requests that failed, were cancelled, or need nothing of what follows.
  void Settle(const std::function<bool(const CascadeImage&)>& is_complete) noexcept;
  void Answer(CascadeRequest& request) noexcept;
  void Count(CascadeRequest& request) noexcept;
  std::span<CascadeImage> GetImages(const CascadeRequest& request) noexcept;
  // Reports it, and lets go of it and of what was computed for it.
  void Close(CascadeRequest& request) noexcept;
  void End() noexcept;
  void FailRequest(size_t request, const Failure& failure) noexcept;

  CascadeModel& model_;
  TRITONBACKEND_ModelInstance* handle_;
  CascadeInstance& instance_;
  ExecutionTimes times_;
  CascadeJob job_;
  Calls calls_;
  void (CascadeRun::*next_)() = nullptr;  // what the step that is under way is followed by
  std::list<CascadeRun*> place_{this};    // in the model's list while this is under way
  std::list<CascadeRun*>::iterator in_model_ = place_.begin();
};

}  // namespace endcap::triton
