#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triton_util/composing_models.h"
#include "triton_util/tensors.h"
#include "triton_util/worker.h"

namespace endcap::triton {

// A part of a tensor. Owns nothing.
struct MemoryBlock {
  const std::byte* data = nullptr;
  size_t bytes = 0;
  MemoryPlace place;
};

// One output of a composing model; valid as long as its call.
struct ComposingOutput {
  TRITONSERVER_DataType data_type = TRITONSERVER_TYPE_INVALID;
  std::vector<int64_t> shape;
  MemoryBlock memory;
};

// One request to a composing model, and its response. Owned by shared pointers. Not thread-safe: it
// is created, started and read on the worker's thread; the server's callbacks only queue tasks
// there.
class ComposingCall : public std::enable_shared_from_this<ComposingCall> {
 public:
  // Throws ComposingModelError if the server has no such model, or it is not ready.
  ComposingCall(const ComposingModels& models, const std::string& model);
  ComposingCall(const ComposingModels& models, const ComposingModel& model);
  ComposingCall(const ComposingCall&) = delete;
  ComposingCall& operator=(const ComposingCall&) = delete;

  // These throw ComposingModelError if the server returns an error.
  void SetId(const std::string& id);
  void SetTimeout(uint64_t timeout_us);
  // Traces the call below the trace of `request`, which must be released after it, see Keep.
  void SetTraced(TRITONBACKEND_Request* request) noexcept { traced_ = request; }
  // Keeps an object until the server has released the request, such as the memory of inputs.
  void Keep(std::shared_ptr<const void> object);
  // The memory stays the caller's, see Keep. Adjacent blocks become one buffer.
  void AddInput(const std::string& name, TRITONSERVER_DataType data_type,
                std::span<const int64_t> shape, std::span<const MemoryBlock> blocks);
  void WantOutput(const std::string& name, bool may_stay_on_gpu = false);

  // As requested: the model may have been reloaded since with other outputs.
  bool WantsOutput(std::string_view name) const { return wanted_.contains(name); }
  bool batched() const noexcept { return batched_; }  // tensors have a batch dimension

  // Sends the request. `done` runs on the worker when the response has arrived and the request is
  // released; the call must live until then. For an error response `done` does not wait for the
  // release, which an ensemble never makes if one of several concurrent steps fails; the call then
  // owns itself until the release. Throws ComposingModelError; `done` never runs then.
  void Start(Worker& worker, Worker::Task done);
  // Between Start and done. The model may send a response without an error nevertheless.
  void Cancel() noexcept;

  // Of a call that is done: the failure, or none.
  const std::optional<Failure>& failure() const noexcept { return failure_; }
  // Of a call that is done without a failure. Throws ComposingModelError if it lacks that
  // output.
  const ComposingOutput& Output(std::string_view name) const;
  // Throws ComposingModelError for a response that cannot be used.
  [[noreturn]] void RejectResponse(const std::string& what) const;

 private:
  void CheckCall(TRITONSERVER_Error* error) const;
  static void OnResponse(TRITONSERVER_InferenceResponse* response, uint32_t flags,
                         void* userp) noexcept;
  static void OnRelease(TRITONSERVER_InferenceRequest* request, uint32_t flags,
                        void* userp) noexcept;
  bool HasFailed() const noexcept;
  void Post(Worker::PreparedTask& task) noexcept;
  void ReadResponse();

  const ComposingModels* models_;
  std::string model_;
  bool batched_ = false;
  std::set<std::string, std::less<>> wanted_;
  ResponseMemory response_memory_;
  InferenceRequestHandle request_;
  TRITONBACKEND_Request* traced_ = nullptr;
  InferenceResponseHandle response_;
  bool has_several_responses_ = false;
  std::vector<std::shared_ptr<const void>> kept_;
  std::atomic<unsigned> events_ = 0;  // bits, see composing_call.cc
  Worker* worker_ = nullptr;
  Worker::PreparedTask done_;
  Worker::PreparedTask on_release_;      // after done_, if that did not wait for the release
  bool is_released_ = false;             // the server holds no pointer to this call any more
  std::shared_ptr<ComposingCall> self_;  // from done_ to on_release_
  std::optional<Failure> failure_;
  std::map<std::string, ComposingOutput, std::less<>> outputs_;
};

}  // namespace endcap::triton
