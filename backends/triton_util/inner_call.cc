#include "triton_util/inner_call.h"

#include <utility>

#include "triton_util/log.h"

namespace endcap::triton {
namespace {

// What has come of a call. A model that answers after its final answer sets no bit anew.
constexpr unsigned kAnswered = 1;  // with the final response
constexpr unsigned kFailed = 2;    // and that was an error
constexpr unsigned kReleased = 4;  // the request

}  // namespace

InnerCall::InnerCall(const InnerServer& server, const std::string& model)
    : server_(&server), model_(model) {
  places_.manager = server.memory_manager();
  TRITONSERVER_InferenceRequest* raw = nullptr;
  CheckInner(
      TRITONSERVER_InferenceRequestNew(&raw, server.handle(), model_.c_str(), kNewestVersion));
  request_.reset(raw);
}

InnerCall::InnerCall(const InnerServer& server, const InnerModel& model)
    : InnerCall(server, model.name) {
  batched_ = model.max_batch_size > 0;
}

void InnerCall::CheckInner(TRITONSERVER_Error* error) const {
  try {
    Check(error);
  } catch (const ApiError& refused) {
    throw InnerError(InnerFailure(model_, refused.code(), refused.what()));
  }
}

void InnerCall::SetId(const std::string& id) {
  CheckInner(TRITONSERVER_InferenceRequestSetId(request_.get(), id.c_str()));
}

void InnerCall::SetTimeout(uint64_t timeout_us) {
  CheckInner(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(request_.get(), timeout_us));
}

void InnerCall::Keep(std::shared_ptr<const void> what) { kept_.push_back(std::move(what)); }

void InnerCall::AddInput(const std::string& name, TRITONSERVER_DataType data_type,
                         std::span<const int64_t> shape, std::span<const Piece> pieces) {
  CheckInner(TRITONSERVER_InferenceRequestAddInput(request_.get(), name.c_str(), data_type,
                                                   shape.data(), shape.size()));
  Piece whole;
  const auto append = [&] {
    if (whole.bytes == 0) return;
    CheckInner(TRITONSERVER_InferenceRequestAppendInputData(
        request_.get(), name.c_str(), whole.data, whole.bytes, whole.place.type(),
        whole.place.device_id));
  };
  for (const Piece& piece : pieces) {
    if (whole.bytes > 0 && piece.place == whole.place && piece.data == whole.data + whole.bytes) {
      whole.bytes += piece.bytes;
      continue;
    }
    append();
    whole = piece;
  }
  append();
}

void InnerCall::WantOutput(const std::string& name, bool may_stay_on_gpu) {
  if (may_stay_on_gpu) places_.gpu_outputs.insert(name);
  wanted_.insert(name);
  CheckInner(TRITONSERVER_InferenceRequestAddRequestedOutput(request_.get(), name.c_str()));
}

void InnerCall::Start(Worker& worker, Worker::Task done) {
  worker_ = &worker;
  done_.push_back([this, run = std::move(done)] {
    ReadResponse();
    if (is_given_back_) {
      kept_.clear();
    } else {
      self_ = shared_from_this();
    }
    run();
  });
  given_back_.push_back([this] {
    is_given_back_ = true;
    kept_.clear();
    const std::shared_ptr<InnerCall> last = std::move(self_);
  });
  CheckInner(TRITONSERVER_InferenceRequestSetReleaseCallback(request_.get(), OnRelease, this));
  CheckInner(TRITONSERVER_InferenceRequestSetResponseCallback(request_.get(), server_->allocator(),
                                                              &places_, OnResponse, this));
  CheckInner(TRITONSERVER_ServerInferAsync(server_->handle(), request_.get(), nullptr));
}

void InnerCall::Cancel() noexcept {
  // The request is deleted by its owner here, so it is there even when the server has released it.
  const ErrorHandle too_late(TRITONSERVER_InferenceRequestCancel(request_.get()));
  if (too_late != nullptr) Log(TRITONSERVER_LOG_VERBOSE, TRITONSERVER_ErrorMessage(too_late.get()));
}

void InnerCall::OnResponse(TRITONSERVER_InferenceResponse* response, uint32_t flags,
                           void* userp) noexcept {
  auto& call = *static_cast<InnerCall*>(userp);
  InnerResponseHandle owned(response);
  if ((call.arrived_ & kAnswered) != 0) return;
  if (owned != nullptr) {
    if (call.response_ != nullptr) call.answered_twice_ = true;
    call.response_ = std::move(owned);
  }
  if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) == 0) return;
  const bool failed = call.HasFailed();
  const unsigned before = call.arrived_.fetch_or(failed ? kAnswered | kFailed : kAnswered);
  if ((before & kReleased) != 0) {
    call.is_given_back_ = true;
    call.Post(call.done_);
  } else if (failed) {
    call.Post(call.done_);
  }
}

void InnerCall::OnRelease(TRITONSERVER_InferenceRequest* /*request*/, uint32_t /*flags*/,
                          void* userp) noexcept {
  auto& call = *static_cast<InnerCall*>(userp);
  const unsigned before = call.arrived_.fetch_or(kReleased);
  if ((before & kReleased) != 0 || (before & kAnswered) == 0) return;
  if ((before & kFailed) != 0) {
    call.Post(call.given_back_);
  } else {
    call.is_given_back_ = true;
    call.Post(call.done_);
  }
}

bool InnerCall::HasFailed() const noexcept {
  return response_ == nullptr || TRITONSERVER_InferenceResponseError(response_.get()) != nullptr;
}

void InnerCall::Post(Worker::Ready& ready) noexcept {
  // The worker may destroy this call as soon as it has the task.
  Worker& worker = *worker_;
  worker.Post(std::move(ready));
}

void InnerCall::ReadResponse() {
  try {
    if (response_ == nullptr) Refuse("gave no answer");
    TRITONSERVER_Error* error = TRITONSERVER_InferenceResponseError(response_.get());
    if (error != nullptr) {  // it belongs to the response
      failure_ =
          InnerFailure(model_, TRITONSERVER_ErrorCode(error), TRITONSERVER_ErrorMessage(error));
      return;
    }
    if (answered_twice_) Refuse("gave several answers to a request: a cascade takes one");
    uint32_t count = 0;
    CheckInner(TRITONSERVER_InferenceResponseOutputCount(response_.get(), &count));
    for (uint32_t i = 0; i < count; ++i) {
      const char* name = nullptr;
      InnerOutput output;
      const int64_t* shape = nullptr;
      uint64_t rank = 0;
      const void* data = nullptr;
      TRITONSERVER_MemoryType memory_type = TRITONSERVER_MEMORY_CPU;
      int64_t memory_type_id = 0;
      void* userp = nullptr;
      CheckInner(TRITONSERVER_InferenceResponseOutput(response_.get(), i, &name, &output.data_type,
                                                      &shape, &rank, &data, &output.memory.bytes,
                                                      &memory_type, &memory_type_id, &userp));
      output.shape.assign(shape, shape + rank);
      output.memory.data = static_cast<const std::byte*>(data);
      output.memory.place = MemoryPlace::FromTriton(memory_type, memory_type_id);
      outputs_.emplace(name, std::move(output));
    }
  } catch (...) {
    failure_ = MakeFailureFromCurrentException();
  }
}

const InnerOutput& InnerCall::Output(std::string_view name) const {
  const auto found = outputs_.find(name);
  if (found == outputs_.end()) Refuse("gave no output '" + std::string(name) + "'");
  return found->second;
}

void InnerCall::Refuse(const std::string& what) const {
  throw InnerError(InnerFailure(model_, TRITONSERVER_ERROR_INTERNAL, what));
}

}  // namespace endcap::triton
