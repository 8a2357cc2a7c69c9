#pragma once

#include <map>
#include <set>
#include <string>

#include "triton_util/error_guard.h"
#include "triton_util/handles.h"
#include "triton_util/server_api.h"

namespace endcap::triton {

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
  // Throws ApiError.
  explicit InnerServer(TRITONBACKEND_Model* model);

  TRITONSERVER_Server* handle() const noexcept { return server_; }
  TRITONBACKEND_MemoryManager* memory_manager() const noexcept { return manager_; }
  // Its userp is a ResponsePlaces.
  TRITONSERVER_ResponseAllocator* allocator() const noexcept { return allocator_.get(); }

  bool IsReady(const std::string& model) const noexcept;

  // Asks the server the first time. Throws InnerError where it has no such model, or it is not
  // ready. One thread at a time.
  const InnerModel& Describe(const std::string& model);
  // The next Describe asks again: a model that was loaded anew may have changed.
  void Forget(const std::string& model) { models_.erase(model); }

 private:
  TRITONSERVER_Server* server_ = nullptr;
  TRITONBACKEND_MemoryManager* manager_ = nullptr;
  AllocatorHandle allocator_;
  std::map<std::string, InnerModel> models_;
};

}  // namespace endcap::triton
