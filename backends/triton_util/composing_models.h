#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "triton_util/errors.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

constexpr int64_t kNewestVersion = -1;  // of a model

// The part of a composing model's config that its callers need.
struct ComposingModel {
  std::string name;
  int max_batch_size = 0;  // 0: its tensors have no batch dimension
  std::set<std::string> outputs;

  bool HasOutput(const std::string& output) const { return outputs.contains(output); }
};

// The failure of a composing model for clients: "model 'detect': ..." with that model's code.
Failure MakeComposingFailure(const std::string& model, TRITONSERVER_Error_Code code,
                             const std::string& message);

// The memory for the outputs of one call: `gpu_outputs` on a GPU if their model prefers that, else
// in host memory.
struct ResponseMemory {
  TRITONBACKEND_MemoryManager* manager = nullptr;
  std::set<std::string, std::less<>> gpu_outputs;
};

// The models of the server that a model is loaded in, for calls to them.
class ComposingModels {
 public:
  using Clock = std::chrono::steady_clock;

  // max_age: how long Describe caches a config. Throws ApiError.
  explicit ComposingModels(TRITONBACKEND_Model* model,
                           Clock::duration max_age = std::chrono::seconds(1));

  TRITONSERVER_Server* server() const noexcept { return server_; }
  TRITONBACKEND_MemoryManager* memory_manager() const noexcept { return manager_; }
  // Allocates memory for responses; its userp is a ResponseMemory. Without GPU memory it provides
  // host memory. Thread-safe.
  TRITONSERVER_ResponseAllocator* allocator() const noexcept { return allocator_.get(); }

  // Thread-safe.
  bool IsReady(const std::string& model) const noexcept;

  // Returns a model's description, valid until the next call. It is read again when it is older
  // than `max_age`, because the model may have been reloaded. Throws ComposingModelError if the
  // server has no such model, or it is not ready. Not thread-safe.
  const ComposingModel& Describe(const std::string& model);

 private:
  TRITONSERVER_Server* server_ = nullptr;
  TRITONBACKEND_MemoryManager* manager_ = nullptr;
  AllocatorHandle allocator_;
  struct Described {
    ComposingModel model;
    Clock::time_point when;
  };
  const Clock::duration max_age_;
  std::map<std::string, Described> models_;
};

}  // namespace endcap::triton
