#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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

// One request to another model of the server. Built, started and read by one thread; the server's
// threads only say when it is done.
class InnerCall {
 public:
  // Throws InnerError where the server has no such model, or it is not ready.
  InnerCall(const InnerServer& server, const std::string& model);
  InnerCall(const InnerCall&) = delete;
  InnerCall& operator=(const InnerCall&) = delete;

  // These throw InnerError where the server refuses.
  void SetId(const std::string& id);
  void SetTimeout(uint64_t timeout_us);
  // Adjacent pieces become one buffer. They must stay until the call is done.
  void AddInput(const std::string& name, TRITONSERVER_DataType data_type,
                std::span<const int64_t> shape, std::span<const Piece> pieces);
  void WantOutput(const std::string& name, bool may_stay_on_gpu = false);

  // Sends the request. `done` runs on the worker when the answer is there and the inputs are not
  // needed any more; never where this throws InnerError. The call must live until then.
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
  void Arrive() noexcept;
  void ReadResponse();

  const InnerServer* server_;
  std::string model_;
  ResponsePlaces places_;
  InnerRequestHandle request_;
  InnerResponseHandle response_;
  bool answered_twice_ = false;
  std::atomic<int> awaited_ = 2;  // the final response, and the release of the request
  Worker* worker_ = nullptr;
  Worker::Ready done_;
  std::optional<Failure> failure_;
  std::map<std::string, InnerOutput, std::less<>> outputs_;
};

}  // namespace endcap::triton
