#include "triton_util/inner_call.h"

#include <utility>

#include "triton_util/log.h"

namespace endcap::triton {
namespace {

constexpr int64_t kNewest = -1;

}  // namespace

InnerCall::InnerCall(const InnerServer& server, const std::string& model)
    : server_(&server), model_(model) {
  places_.manager = server.memory_manager();
  TRITONSERVER_InferenceRequest* raw = nullptr;
  CheckInner(TRITONSERVER_InferenceRequestNew(&raw, server.handle(), model_.c_str(), kNewest));
  request_.reset(raw);
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
  CheckInner(TRITONSERVER_InferenceRequestAddRequestedOutput(request_.get(), name.c_str()));
}

void InnerCall::Start(Worker& worker, Worker::Task done) {
  worker_ = &worker;
  done_.push_back([this, run = std::move(done)] {
    ReadResponse();
    run();
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
  if (response != nullptr) {
    if (call.response_ != nullptr) call.answered_twice_ = true;
    call.response_.reset(response);
  }
  if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0) call.Arrive();
}

void InnerCall::OnRelease(TRITONSERVER_InferenceRequest* /*request*/, uint32_t /*flags*/,
                          void* userp) noexcept {
  static_cast<InnerCall*>(userp)->Arrive();
}

void InnerCall::Arrive() noexcept {
  if (--awaited_ > 0) return;
  // The worker may destroy this call as soon as it has the task.
  Worker& worker = *worker_;
  worker.Post(std::move(done_));
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
    failure_ = FailureOfCurrentException();
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
