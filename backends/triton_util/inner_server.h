#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "triton_util/error_guard.h"
#include "triton_util/handles.h"
#include "triton_util/server_api.h"

namespace endcap::triton {

constexpr int64_t kNewestVersion = -1;  // of a model

// What a caller needs to know of another model of the server.
struct InnerModel {
  std::string name;
  int max_batch_size = 0;  // 0: its tensors have no batch dimension
  std::set<std::string> outputs;

  bool HasOutput(const std::string& output) const { return outputs.contains(output); }
};

// The failure of another model for clients: "model 'detect': ..." with its own code.
Failure InnerFailure(const std::string& model, TRITONSERVER_Error_Code code,
                     const std::string& message);

// Where the outputs of one call may lie: those in `gpu_outputs` where their model wants them,
// others in host memory.
struct ResponsePlaces {
  TRITONBACKEND_MemoryManager* manager = nullptr;
  std::set<std::string, std::less<>> gpu_outputs;
};

// The server that a model is part of, to call its other models.
class InnerServer {
 public:
  using Clock = std::chrono::steady_clock;

  // Throws ApiError.
  explicit InnerServer(TRITONBACKEND_Model* model,
                       Clock::duration max_age = std::chrono::seconds(1));

  TRITONSERVER_Server* handle() const noexcept { return server_; }
  TRITONBACKEND_MemoryManager* memory_manager() const noexcept { return manager_; }
  // Its userp is a ResponsePlaces.
  TRITONSERVER_ResponseAllocator* allocator() const noexcept { return allocator_.get(); }

  bool IsReady(const std::string& model) const noexcept;

  // Asks the server where the last answer is older than `max_age`: a model that was loaded anew may
  // have changed. Throws InnerError where it has no such model, or it is not ready. Valid until the
  // next call; one thread at a time.
  const InnerModel& Describe(const std::string& model);

 private:
  TRITONSERVER_Server* server_ = nullptr;
  TRITONBACKEND_MemoryManager* manager_ = nullptr;
  AllocatorHandle allocator_;
  struct Described {
    InnerModel model;
    Clock::time_point when;
  };
  const Clock::duration max_age_;
  std::map<std::string, Described> models_;
};

}  // namespace endcap::triton
