#include "bls/cascade_run.h"

#include <algorithm>
#include <utility>

#include "bls/answer.h"
#include "bls/choose_rows.h"
#include "bls/classify_work.h"
#include "bls/detect_work.h"
#include "bls/read_request.h"
#include "bls/rois_work.h"
#include "triton_util/statistics.h"

namespace endcap::triton {

CascadeRun::CascadeRun(CascadeModel& model, TRITONBACKEND_ModelInstance* handle,
                       CascadeInstance& instance, std::span<TRITONBACKEND_Request*> requests)
    : model_(model),
      handle_(handle),
      instance_(instance),
      calls_(
          model.worker_, model.inner_calls_,
          [this](size_t request) { return job_.requests[request].open(); },
          [this](size_t request, const Failure& failure) { FailRequest(request, failure); },
          [this] { (this->*next_)(); }) {
  times_.exec_start_ns = NowNs();
  job_.settings = &model.settings_;
  job_.server = &model.server_;
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
  model_.runs_.splice(model_.runs_.end(), place_);
  model_.worker_.Watch(true);
  times_.compute_start_ns = NowNs();
  for (CascadeRequest& request : job_.requests) {
    request.held->Own(request.pending.request.handle(), instance_.runs);
  }
  Settle([](const CascadeImage&) { return false; });
  Run(
      [this] {
        Works works;
        works.push_back(std::make_unique<DetectWork>(job_));
        return works;
      },
      &CascadeRun::Detected);
}

void CascadeRun::Run(const std::function<Works()>& plan, void (CascadeRun::*then)()) noexcept {
  Works works;
  try {
    works = plan();
  } catch (...) {
    const Failure failure = MakeFailureFromCurrentException();
    for (size_t i = 0; i < job_.requests.size(); ++i) FailRequest(i, failure);
  }
  next_ = then;
  calls_.Run(std::move(works), weak_from_this().lock());
}

void CascadeRun::Detected() {
  Run(
      [this] {
        Choose();
        Settle([](const CascadeImage& image) { return image.chosen.empty(); });
        return RoisWorks();
      },
      &CascadeRun::CutOut);
}

void CascadeRun::Choose() {
  for (CascadeImage& image : job_.images) {
    const CascadeRequest& request = job_.requests[image.request];
    if (!request.open() || !request.wants_classes || job_.settings->routes.empty()) continue;
    try {
      image.chosen = ChooseRows(image, *job_.settings);
    } catch (...) {
      FailRequest(image.request, MakeFailureFromCurrentException());
    }
  }
}

CascadeRun::Works CascadeRun::RoisWorks() {
  Works works;
  for (size_t i = 0; i < job_.settings->routes.rois_models().size(); ++i) {
    works.push_back(std::make_unique<RoisWork>(job_, i));
  }
  return works;
}

void CascadeRun::CutOut() {
  Run(
      [this] {
        Settle([](const CascadeImage& image) { return image.crops.empty(); });
        return ClassifyWorks(job_);
      },
      &CascadeRun::Classified);
}

void CascadeRun::Classified() {
  Settle([](const CascadeImage&) { return true; });
  End();
}

std::span<CascadeImage> CascadeRun::GetImages(const CascadeRequest& request) noexcept {
  return std::span(job_.images).subspan(request.first_image, request.image_count);
}

void CascadeRun::Settle(const std::function<bool(const CascadeImage&)>& is_complete) noexcept {
  times_.compute_end_ns = NowNs();
  for (CascadeRequest& request : job_.requests) {
    if (request.closed) continue;
    if (request.open()) {
      const std::span<CascadeImage> images = GetImages(request);
      if (!std::all_of(images.begin(), images.end(), is_complete)) continue;
    }
    Answer(request);
    Close(request);
  }
}

void CascadeRun::Answer(CascadeRequest& request) noexcept {
  try {
    if (model_.AnswerIfCancelled(request.pending)) return;
    if (!request.failure.has_value()) {
      WriteAnswer(job_, request, instance_.execution_context(), model_.batched());
      // A client that has its answer finds it counted.
      Count(request);
      request.pending.sink.Send();
      return;
    }
  } catch (...) {
    request.failure = MakeFailureFromCurrentException();
  }
  model_.Refuse(request.pending, *request.failure);
}

void CascadeRun::Count(CascadeRequest& request) noexcept {
  request.pending.item_count = static_cast<int64_t>(request.image_count);
  model_.counters().CountImages(request.image_count);
  size_t classified = 0;
  for (const CascadeImage& image : GetImages(request)) classified += image.classes.size();
  model_.crops_.Add(static_cast<double>(classified));
}

void CascadeRun::Close(CascadeRequest& request) noexcept {
  times_.exec_end_ns = NowNs();
  ReportRequest(handle_, request.pending, times_);
  request.closed = true;
  for (CascadeImage& image : GetImages(request)) {
    const size_t owner = image.request;
    image = CascadeImage{};
    image.request = owner;
  }
  request.held.reset();
  model_.images_.Leave(request.image_count);
}

void CascadeRun::End() noexcept {
  int64_t items = 0;
  for (const CascadeRequest& request : job_.requests) items += request.pending.item_count;
  ReportExecution(handle_, items, times_);
  place_.splice(place_.end(), model_.runs_, in_model_);
  model_.worker_.Watch(!model_.runs_.empty());
  // From here on the instance, and then the model, may go; the worker ends with the model.
  instance_.runs.Leave(1);
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
