#include "bls/cascade_run.h"

#include <algorithm>
#include <utility>

#include "bls/cascade_steps.h"

namespace endcap::triton {

CascadeRun::CascadeRun(CascadeModel& model, TRITONBACKEND_ModelInstance* handle,
                       CascadeInstance& instance, std::span<TRITONBACKEND_Request*> requests)
    : model_(model),
      handle_(handle),
      instance_(instance),
      calls_(
          model.worker_, model.composing_calls_,
          [this](size_t request) { return job_.requests[request].open(); },
          [this](size_t request, const Failure& failure) { FailRequest(request, failure); },
          [this] { (this->*next_)(); }) {
  times_.exec_start_ns = NowNs();
  job_.settings = &model.settings_;
  job_.models = &model.models_;
  job_.requests.reserve(requests.size());
  for (TRITONBACKEND_Request* request : requests) job_.requests.emplace_back(request);
  for (size_t i = 0; i < requests.size(); ++i) {
    try {
      ReadRequest(job_, i,
                  {.batched = model.batched(), .execution_context = instance.execution_context()});
    } catch (...) {
      FailRequest(i, MakeFailureFromCurrentException());
    }
  }
}

void CascadeRun::Begin() noexcept {
  model_.runs_.splice(model_.runs_.end(), list_node_);
  model_.worker_.SetTicking(true);
  times_.compute_start_ns = NowNs();
  for (CascadeRequest& request : job_.requests) {
    request.shared->Own(request.pending.request.handle(), instance_.in_flight);
  }
  CloseCompleted([](const CascadeImage&) { return false; });
  RunStep(
      [this] {
        Plans plans;
        plans.push_back(NewDetectPlan(job_));
        return plans;
      },
      &CascadeRun::OnDetected);
}

void CascadeRun::RunStep(const std::function<Plans()>& make_plans,
                         void (CascadeRun::*then)()) noexcept {
  Plans plans;
  try {
    plans = make_plans();
  } catch (...) {
    const Failure failure = MakeFailureFromCurrentException();
    for (size_t i = 0; i < job_.requests.size(); ++i) FailRequest(i, failure);
  }
  next_ = then;
  calls_.Run(std::move(plans), weak_from_this().lock());
}

void CascadeRun::OnDetected() {
  RunStep(
      [this] {
        SelectRowsOfImages();
        CloseCompleted([](const CascadeImage& image) { return image.selected.empty(); });
        return NewRoisPlans(job_);
      },
      &CascadeRun::OnCropped);
}

void CascadeRun::SelectRowsOfImages() {
  for (CascadeImage& image : job_.images) {
    const CascadeRequest& request = job_.requests[image.request];
    if (!request.open() || !request.wants_classes || job_.settings->routes.empty()) continue;
    try {
      image.selected = SelectRows(image, *job_.settings);
    } catch (...) {
      FailRequest(image.request, MakeFailureFromCurrentException());
    }
  }
}

void CascadeRun::OnCropped() {
  RunStep(
      [this] {
        CloseCompleted([](const CascadeImage& image) { return image.crops.empty(); });
        return NewClassifyPlans(job_);
      },
      &CascadeRun::OnClassified);
}

void CascadeRun::OnClassified() {
  CloseCompleted([](const CascadeImage&) { return true; });
  End();
}

void CascadeRun::CloseCompleted(
    const std::function<bool(const CascadeImage&)>& is_complete) noexcept {
  times_.compute_end_ns = NowNs();
  for (CascadeRequest& request : job_.requests) {
    if (request.closed) continue;
    if (request.open()) {
      const std::span<CascadeImage> images = job_.GetImages(request);
      if (!std::all_of(images.begin(), images.end(), is_complete)) continue;
    }
    Respond(request);
    Close(request);
  }
}

void CascadeRun::Respond(CascadeRequest& request) noexcept {
  try {
    if (model_.RespondIfCancelled(request.pending)) return;
    if (!request.failure.has_value()) {
      WriteResponse(job_, request, instance_.execution_context(), model_.batched());
      // Before the response is sent, so that the client finds it counted.
      Count(request);
      request.pending.sink.Send();
      return;
    }
  } catch (...) {
    request.failure = MakeFailureFromCurrentException();
  }
  model_.FailRequest(request.pending, *request.failure);
}

void CascadeRun::Count(CascadeRequest& request) noexcept {
  request.pending.item_count = static_cast<int64_t>(request.image_count);
  model_.counters().CountImages(request.image_count);
  size_t classified = 0;
  for (const CascadeImage& image : job_.GetImages(request)) classified += image.classes.size();
  model_.crops_.Add(static_cast<double>(classified));
}

void CascadeRun::Close(CascadeRequest& request) noexcept {
  times_.exec_end_ns = NowNs();
  ReportRequest(handle_, request.pending, times_);
  request.closed = true;
  for (CascadeImage& image : job_.GetImages(request)) {
    const size_t owner = image.request;
    image = CascadeImage{};
    image.request = owner;
  }
  request.shared.reset();
  model_.images_.Leave(request.image_count);
}

void CascadeRun::End() noexcept {
  int64_t items = 0;
  for (const CascadeRequest& request : job_.requests) items += request.pending.item_count;
  ReportExecution(handle_, items, times_);
  list_node_.splice(list_node_.end(), model_.runs_, position_);
  model_.worker_.SetTicking(!model_.runs_.empty());
  // Afterwards the instance, and then the model, may be destroyed; the worker ends with the model.
  instance_.in_flight.Leave(1);
}

void CascadeRun::FailRequest(size_t index, const Failure& failure) noexcept {
  CascadeRequest& request = job_.requests[index];
  if (!request.open()) return;
  try {
    request.failure = failure;
  } catch (const std::bad_alloc&) {
    request.failure =
        Failure{ToTriton(ErrorCode::kOutOfMemory), ErrorCode::kOutOfMemory, {}, false};
  }
}

void CascadeRun::PollCancelled() noexcept {
  bool any = false;
  for (CascadeRequest& request : job_.requests) {
    if (!request.open()) continue;
    const ErrorHandle unknown(
        Guard([&] { request.cancelled = request.pending.request.IsCancelled(); }));
    any = any || request.cancelled;
  }
  if (any) calls_.CancelUnneeded();
}

}  // namespace endcap::triton
