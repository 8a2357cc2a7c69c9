#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triton_util/triton_api.h"

// A fake server for one backend, which is linked into the test: one model with one instance. The
// test chooses the memory of inputs and outputs. GPU memory is that of the emulated library, which
// the host accesses by copies only.

namespace endcap::fake {

struct Buffer {
  std::shared_ptr<void> memory;
  size_t bytes = 0;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
};

// Copy into new memory of that type, and from a buffer into host memory.
Buffer Put(std::span<const std::byte> bytes, TRITONSERVER_MemoryType type);
void Get(const Buffer& buffer, void* to);

struct Input {
  std::string name;
  TRITONSERVER_DataType data_type;
  std::vector<int64_t> shape;
  std::vector<Buffer> buffers;
};

// The memory that the server promises and provides for an output; none: what the backend requests.
struct OutputPolicy {
  std::optional<TRITONSERVER_MemoryType> promised;
  std::optional<TRITONSERVER_MemoryType> provided;
};

struct Request {
  std::vector<Input> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, OutputPolicy> policies;
};

struct Output {
  std::vector<int64_t> shape;
  Buffer buffer;
  TRITONSERVER_MemoryType requested = TRITONSERVER_MEMORY_CPU;  // requested by the backend

  template <typename T>
  std::vector<T> Values() const {
    std::vector<T> values(buffer.bytes / sizeof(T));
    Get(buffer, values.data());
    return values;
  }
};

struct Response {
  std::string error;  // empty: none
  TRITONSERVER_Error_Code error_code = TRITONSERVER_ERROR_UNKNOWN;
  std::map<std::string, Output> outputs;
};

class Server {
 public:
  // parameters: as in config.pbtxt. inputs: the inputs in config.pbtxt, for a model without a batch
  // dimension; if empty, the model has one. Throws std::runtime_error with the backend's error.
  Server(const std::map<std::string, std::string>& parameters, TRITONSERVER_InstanceGroupKind kind,
         int device_id = 0, const std::vector<std::string>& inputs = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Executes one batch. Throws std::logic_error unless each request gets one response and is
  // released once.
  std::vector<Response> Infer(const std::vector<Request>& requests);

  // Returns the error of the readiness check; empty if the instance is ready.
  std::string GetReadinessError();

  // Returns the sum of a counter over its labels.
  static double Counter(const std::string& name);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace endcap::fake
