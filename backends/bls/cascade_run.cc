#include "bls/cascade_run.h"

#include <algorithm>
#include <utility>

#include "bls/answer.h"
#include "bls/classify_work.h"
#include "bls/contracts.h"
#include "bls/detect_work.h"
#include "bls/rois_work.h"
#include "endcap/error.h"
#include "triton_util/execution.h"
#include "triton_util/statistics.h"

namespace endcap::triton {
namespace {

constexpr size_t kLengthPrefixBytes = 4;  // before each element of a BYTES tensor

// A file together with the length before it, which lies in the same buffer.
Bytes ElementOf(Bytes file) {
  return {file.data() - kLengthPrefixBytes, file.size() + kLengthPrefixBytes};
}

uint64_t TimeoutOf(const Request& request) {
  uint64_t timeout_us = 0;
  Check(TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request.handle(), &timeout_us));
  return timeout_us;
}

}  // namespace

CascadeRun::CascadeRun(CascadeModel& model, TRITONBACKEND_ModelInstance* handle,
                       CascadeInstance& instance, std::span<TRITONBACKEND_Request*> requests)
    : model_(model),
      handle_(handle),
      instance_(instance),
      calls_(
          model.worker_, model.inner_calls_,
          [this](size_t request) { return job_.requests[request].open(); },
          [this](size_t request, const Failure& failure) { FailRequest(request, failure); }),
      open_count_(requests.size()) {
  times_.exec_start_ns = NowNs();
  job_.settings = &model.settings_;
  job_.server = &model.server_;
  job_.requests.reserve(requests.size());
  for (TRITONBACKEND_Request* request : requests) job_.requests.emplace_back(request);
  for (size_t i = 0; i < requests.size(); ++i) {
    try {
      Read(job_.requests[i]);
    } catch (...) {
      FailRequest(i, FailureOfCurrentException());
    }
  }
}

void CascadeRun::Read(CascadeRequest& request) {
  const Request& source = request.exchange.request;
  request.id = source.Id();
  request.timeout_us = TimeoutOf(source);
  request.wants_classes = source.WantsOutput(kClassIds) || source.WantsOutput(kClassScores) ||
                          source.WantsOutput(kClassLabels);
  request.encoded.emplace(
      source.GetInput(kEncoded, {.batched = model_.batched(), .workplace = instance_.workplace()}));
  if (request.encoded->data_type() != TRITONSERVER_TYPE_BYTES) {
    throw Error(ErrorCode::kInvalidArgument,
                "input 'encoded' is no BYTES tensor: give an element with a file for each image");
  }
  const std::vector<Bytes> files = request.encoded->Strings();
  if (std::cmp_not_equal(files.size(), request.encoded->item_count())) {
    throw Error(ErrorCode::kInvalidArgument, "input 'encoded' has " + std::to_string(files.size()) +
                                                 " elements for " +
                                                 std::to_string(request.encoded->item_count()) +
                                                 " images; it takes one for each");
  }
  const auto index = static_cast<size_t>(&request - job_.requests.data());
  request.first_image = job_.images.size();
  for (const Bytes file : files) {
    job_.images.emplace_back();
    job_.images.back().request = index;
    job_.images.back().element = ElementOf(file);
  }
  request.image_count = files.size();
}

void CascadeRun::Begin() noexcept {
  try {
    model_.runs_.insert(this);
    model_.worker_.Watch(true);
  } catch (const std::bad_alloc&) {
    // Then cancellation is seen between the steps only.
  }
  times_.compute_start_ns = NowNs();
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
    const Failure failure = FailureOfCurrentException();
    for (size_t i = 0; i < job_.requests.size(); ++i) FailRequest(i, failure);
  }
  calls_.Run(std::move(works), shared_from_this(), [this, then] { (this->*then)(); });
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
    const ItemTensor& scores = image.detections.at("detection_scores");
    const ItemTensor& classes = image.detections.at("detection_classes");
    const ItemTensor& boxes = image.detections.at("detection_boxes");
    const int64_t rows = scores.shape[0];
    if (classes.shape[0] != rows || boxes.shape[0] != rows || boxes.shape[1] != 4) {
      FailRequest(image.request,
                  InnerFailure(job_.settings->detect_model, TRITONSERVER_ERROR_INTERNAL,
                               "gave boxes, scores and classes of different numbers of rows"));
      continue;
    }
    const int64_t found = *image.detections.at("num_detections").Data<int32_t>();
    const auto count = static_cast<size_t>(std::clamp(found, int64_t{0}, rows));
    image.chosen = bls::Choose({scores.Data<float>(), count}, {classes.Data<int32_t>(), count},
                               job_.settings->classify_threshold, job_.settings->routes);
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

void CascadeRun::Settle(const std::function<bool(const CascadeImage&)>& is_complete) noexcept {
  times_.compute_end_ns = NowNs();
  for (CascadeRequest& request : job_.requests) {
    if (request.closed) continue;
    if (request.open()) {
      const auto images = std::span(job_.images).subspan(request.first_image, request.image_count);
      if (!std::all_of(images.begin(), images.end(), is_complete)) continue;
    }
    Answer(request);
    Close(request);
  }
}

void CascadeRun::Answer(CascadeRequest& request) noexcept {
  try {
    if (model_.AnswerIfCancelled(request.exchange)) return;
    if (!request.failure.has_value()) {
      SendAnswer(job_, request, instance_.workplace(), model_.batched());
      request.exchange.item_count = static_cast<int64_t>(request.image_count);
      model_.counters().CountImages(request.image_count);
      return;
    }
  } catch (...) {
    request.failure = FailureOfCurrentException();
  }
  model_.Refuse(request.exchange, *request.failure);
}

void CascadeRun::Close(CascadeRequest& request) noexcept {
  times_.exec_end_ns = NowNs();
  ReportRequest(handle_, request.exchange, times_);
  request.closed = true;
  request.encoded.reset();
  Release(request.exchange.request.handle());
  --open_count_;
  model_.requests_.Leave(1);
}

void CascadeRun::End() noexcept {
  int64_t items = 0;
  for (const CascadeRequest& request : job_.requests) items += request.exchange.item_count;
  ReportExecution(handle_, items, times_);
  model_.runs_.erase(this);
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
        Guard([&] { request.cancelled = request.exchange.request.IsCancelled(); }));
    any = any || request.cancelled;
  }
  if (any) calls_.CancelUnneeded();
}

}  // namespace endcap::triton
