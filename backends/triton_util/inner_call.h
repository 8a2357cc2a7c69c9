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

#include "triton_util/handles.h"
#include "triton_util/inner_server.h"
#include "triton_util/memory_place.h"
#include "triton_util/worker.h"

namespace endcap::triton {

// A part of an input, in memory that stays the caller's.
struct Piece {
  const std::byte* data = nullptr;
  size_t bytes = 0;
  MemoryPlace place;
};

// One output of another model; valid as long as its call.
struct InnerOutput {
  TRITONSERVER_DataType data_type = TRITONSERVER_TYPE_INVALID;
  std::vector<int64_t> shape;
  Piece memory;
};

// One request to another model of the server; owned by shared pointers. Built, started and read by
// one thread, that of the worker; the server's threads only say when it is done.
class InnerCall : public std::enable_shared_from_this<InnerCall> {
 public:
  // Throws InnerError where the server has no such model, or it is not ready.
  InnerCall(const InnerServer& server, const std::string& model);
  InnerCall(const InnerServer& server, const InnerModel& model);
  InnerCall(const InnerCall&) = delete;
  InnerCall& operator=(const InnerCall&) = delete;

  // These throw InnerError where the server refuses.
  void SetId(const std::string& id);
  void SetTimeout(uint64_t timeout_us);
  // What lives until the server has given the request back, as the memory of inputs must.
  void Keep(std::shared_ptr<const void> what);
  // Adjacent pieces become one buffer.
  void AddInput(const std::string& name, TRITONSERVER_DataType data_type,
                std::span<const int64_t> shape, std::span<const Piece> pieces);
  void WantOutput(const std::string& name, bool may_stay_on_gpu = false);

  // What was asked, for who reads the answer: the model may have been loaded anew since.
  bool WantsOutput(std::string_view name) const { return wanted_.contains(name); }
  bool batched() const noexcept { return batched_; }  // tensors have a batch dimension

  // Sends the request. `done` runs on the worker when the answer is there and the request has been
  // given back; never where this throws InnerError. The call must live until then. Where the answer
  // is an error `done` does not wait for the request, which may never come back: an ensemble keeps
  // it that has failed in one of several steps at a time. The call then lives on until it does.
  void Start(Worker& worker, Worker::Task done);
  // Between Start and done. The model may answer nevertheless.
  void Cancel() noexcept;

  // Of a call that is done: why there is no answer.
  const std::optional<Failure>& failure() const noexcept { return failure_; }
  // Of a call that is done without failure. Throws InnerError where the model gave no such output.
  const InnerOutput& Output(std::string_view name) const;
  // The failure of an answer that cannot be used.
  [[noreturn]] void Refuse(const std::string& what) const;

 private:
  void CheckInner(TRITONSERVER_Error* error) const;
  static void OnResponse(TRITONSERVER_InferenceResponse* response, uint32_t flags,
                         void* userp) noexcept;
  static void OnRelease(TRITONSERVER_InferenceRequest* request, uint32_t flags,
                        void* userp) noexcept;
  bool HasFailed() const noexcept;
  void Post(Worker::Ready& ready) noexcept;
  void ReadResponse();

  const InnerServer* server_;
  std::string model_;
  bool batched_ = false;
  std::set<std::string, std::less<>> wanted_;
  ResponsePlaces places_;
  InnerRequestHandle request_;
  InnerResponseHandle response_;
  bool answered_twice_ = false;
  std::vector<std::shared_ptr<const void>> kept_;
  std::atomic<unsigned> arrived_ = 0;  // bits of what came: see inner_call.cc
  Worker* worker_ = nullptr;
  Worker::Ready done_;
  Worker::Ready given_back_;         // after done_, where that did not wait
  bool is_given_back_ = false;       // the server has nothing of this any more
  std::shared_ptr<InnerCall> self_;  // from done_ to given_back_
  std::optional<Failure> failure_;
  std::map<std::string, InnerOutput, std::less<>> outputs_;
};

}  // namespace endcap::triton
