#include "triton_util/composing_call.h"

#include <utility>

#include "triton_util/trace.h"

namespace endcap::triton {
namespace {

// Bits of ComposingCall::events_. A response after the final one sets none.
constexpr unsigned kResponded = 1;  // the final response has arrived
constexpr unsigned kFailed = 2;     // it is an error
constexpr unsigned kReleased = 4;   // the request is released

}  // namespace

ComposingCall::ComposingCall(const ComposingModels& models, const std::string& model)
    : models_(&models), model_(model) {
  response_memory_.manager = models.memory_manager();
  TRITONSERVER_InferenceRequest* raw = nullptr;
  CheckCall(
      TRITONSERVER_InferenceRequestNew(&raw, models.server(), model_.c_str(), kNewestVersion));
  request_.reset(raw);
}

ComposingCall::ComposingCall(const ComposingModels& models, const ComposingModel& model)
    : ComposingCall(models, model.name) {
  batched_ = model.max_batch_size > 0;
}

void ComposingCall::CheckCall(TRITONSERVER_Error* error) const {
  try {
    Check(error);
  } catch (const ApiError& api_error) {
    throw ComposingModelError(MakeComposingFailure(model_, api_error.code(), api_error.what()));
  }
}

void ComposingCall::SetId(const std::string& id) {
  CheckCall(TRITONSERVER_InferenceRequestSetId(request_.get(), id.c_str()));
}

void ComposingCall::SetTimeout(uint64_t timeout_us) {
  CheckCall(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(request_.get(), timeout_us));
}

void ComposingCall::Keep(std::shared_ptr<const void> object) { kept_.push_back(std::move(object)); }

void ComposingCall::AddInput(const std::string& name, TRITONSERVER_DataType data_type,
                             std::span<const int64_t> shape, std::span<const MemoryBlock> blocks) {
  CheckCall(TRITONSERVER_InferenceRequestAddInput(request_.get(), name.c_str(), data_type,
                                                  shape.data(), shape.size()));
  MemoryBlock buffer;
  const auto append = [&] {
    if (buffer.bytes == 0) return;
    CheckCall(TRITONSERVER_InferenceRequestAppendInputData(
        request_.get(), name.c_str(), buffer.data, buffer.bytes, buffer.place.type(),
        buffer.place.device_id));
  };
  for (const MemoryBlock& block : blocks) {
    if (buffer.bytes > 0 && block.place == buffer.place &&
        block.data == buffer.data + buffer.bytes) {
      buffer.bytes += block.bytes;
      continue;
    }
    append();
    buffer = block;
  }
  append();
}

void ComposingCall::WantOutput(const std::string& name, bool may_stay_on_gpu) {
  if (may_stay_on_gpu) response_memory_.gpu_outputs.insert(name);
  wanted_.insert(name);
  CheckCall(TRITONSERVER_InferenceRequestAddRequestedOutput(request_.get(), name.c_str()));
}

void ComposingCall::Start(Worker& worker, Worker::Task done) {
  worker_ = &worker;
  done_.push_back([this, run = std::move(done)] {
    ReadResponse();
    if (is_released_) {
      kept_.clear();
    } else {
      self_ = shared_from_this();
    }
    run();
  });
  on_release_.push_back([this] {
    is_released_ = true;
    kept_.clear();
    const std::shared_ptr<ComposingCall> last = std::move(self_);
  });
  CheckCall(TRITONSERVER_InferenceRequestSetReleaseCallback(request_.get(), OnRelease, this));
  CheckCall(TRITONSERVER_InferenceRequestSetResponseCallback(request_.get(), models_->allocator(),
                                                             &response_memory_, OnResponse, this));
  // The server owns the trace from here on, also if it refuses the request.
  TRITONSERVER_InferenceTrace* trace =
      traced_ == nullptr ? nullptr : RequestTrace(traced_).NewChild();
  CheckCall(TRITONSERVER_ServerInferAsync(models_->server(), request_.get(), trace));
}

void ComposingCall::Cancel() noexcept {
  // Valid even after the release, because the handle deletes the request.
  LogIfFailed(TRITONSERVER_InferenceRequestCancel(request_.get()), TRITONSERVER_LOG_VERBOSE);
}

void ComposingCall::OnResponse(TRITONSERVER_InferenceResponse* response, uint32_t flags,
                               void* userp) noexcept {
  auto& call = *static_cast<ComposingCall*>(userp);
  InferenceResponseHandle owned(response);
  if ((call.events_ & kResponded) != 0) return;
  if (owned != nullptr) {
    if (call.response_ != nullptr) call.has_several_responses_ = true;
    call.response_ = std::move(owned);
  }
  if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) == 0) return;
  const bool failed = call.HasFailed();
  const unsigned before = call.events_.fetch_or(failed ? kResponded | kFailed : kResponded);
  if ((before & kReleased) != 0) {
    call.is_released_ = true;
    call.Post(call.done_);
  } else if (failed) {
    call.Post(call.done_);
  }
}

void ComposingCall::OnRelease(TRITONSERVER_InferenceRequest* /*request*/, uint32_t /*flags*/,
                              void* userp) noexcept {
  auto& call = *static_cast<ComposingCall*>(userp);
  const unsigned before = call.events_.fetch_or(kReleased);
  if ((before & kReleased) != 0 || (before & kResponded) == 0) return;
  if ((before & kFailed) != 0) {
    call.Post(call.on_release_);
  } else {
    call.is_released_ = true;
    call.Post(call.done_);
  }
}

bool ComposingCall::HasFailed() const noexcept {
  return response_ == nullptr || TRITONSERVER_InferenceResponseError(response_.get()) != nullptr;
}

void ComposingCall::Post(Worker::PreparedTask& task) noexcept {
  // The task may destroy this call before Post returns.
  Worker& worker = *worker_;
  worker.Post(std::move(task));
}

void ComposingCall::ReadResponse() {
  try {
    if (response_ == nullptr) RejectResponse("sent no response");
    TRITONSERVER_Error* error = TRITONSERVER_InferenceResponseError(response_.get());
    if (error != nullptr) {  // the response owns it
      failure_ = MakeComposingFailure(model_, TRITONSERVER_ErrorCode(error),
                                      TRITONSERVER_ErrorMessage(error));
      return;
    }
    if (has_several_responses_)
      RejectResponse("sent several responses to a request: a cascade takes one");
    uint32_t count = 0;
    CheckCall(TRITONSERVER_InferenceResponseOutputCount(response_.get(), &count));
    for (uint32_t i = 0; i < count; ++i) {
      const char* name = nullptr;
      ComposingOutput output;
      const int64_t* shape = nullptr;
      uint64_t rank = 0;
      const void* data = nullptr;
      TRITONSERVER_MemoryType memory_type = TRITONSERVER_MEMORY_CPU;
      int64_t memory_type_id = 0;
      void* userp = nullptr;
      CheckCall(TRITONSERVER_InferenceResponseOutput(response_.get(), i, &name, &output.data_type,
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

const ComposingOutput& ComposingCall::Output(std::string_view name) const {
  const auto found = outputs_.find(name);
  if (found == outputs_.end()) RejectResponse("gave no output '" + std::string(name) + "'");
  return found->second;
}

void ComposingCall::RejectResponse(const std::string& what) const {
  throw ComposingModelError(MakeComposingFailure(model_, TRITONSERVER_ERROR_INTERNAL, what));
}

}  // namespace endcap::triton
