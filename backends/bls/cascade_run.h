#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "bls/cascade_job.h"
#include "bls/cascade_model.h"
#include "bls/step_calls.h"

namespace endcap::triton {

// The steps of a cascade for the requests of one execution. A step starts when all calls of the one
// before are done; a request that needs no further step gets its response between steps. Created on
// the instance's thread; all else happens on the worker's.
class CascadeRun : public std::enable_shared_from_this<CascadeRun> {
 public:
  // Reads the requests; an exception for one of them fails that request. Throws std::bad_alloc
  // only, and does not own the requests then.
  CascadeRun(CascadeModel& model, TRITONBACKEND_ModelInstance* handle, CascadeInstance& instance,
             std::span<TRITONBACKEND_Request*> requests);

  // The images of all requests.
  size_t image_count() const noexcept { return job_.images.size(); }

  // Starts the first step.
  void Begin() noexcept;
  // Marks requests whose clients have cancelled, and cancels the calls that are not needed then.
  void PollCancelled() noexcept;

 private:
  using Plans = std::vector<std::unique_ptr<CallPlan>>;

  // The end of each step with calls.
  void OnDetected();
  void OnCropped();
  void OnClassified();

  void SelectRowsOfImages();
  // Runs the calls that `make_plans` returns, then `then`. An exception fails all open requests.
  void RunStep(const std::function<Plans()>& make_plans, void (CascadeRun::*then)()) noexcept;
  // Responds to and closes the requests that failed, were cancelled, or whose images are complete.
  void CloseCompleted(const std::function<bool(const CascadeImage&)>& is_complete) noexcept;
  void Respond(CascadeRequest& request) noexcept;
  void Count(CascadeRequest& request) noexcept;
  // Reports a request, and frees it and its intermediate results.
  void Close(CascadeRequest& request) noexcept;
  void End() noexcept;
  void FailRequest(size_t index, const Failure& failure) noexcept;

  CascadeModel& model_;
  TRITONBACKEND_ModelInstance* handle_;
  CascadeInstance& instance_;
  ExecutionTimes times_;
  CascadeJob job_;
  StepCalls calls_;
  void (CascadeRun::*next_)() = nullptr;    // runs at the end of the current step
  std::list<CascadeRun*> list_node_{this};  // moved to the model's list from Begin to End
  std::list<CascadeRun*>::iterator position_ = list_node_.begin();
};

}  // namespace endcap::triton
