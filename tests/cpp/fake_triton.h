#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triton_util/triton_api.h"

// A server for one backend, which is linked into the test: it loads one model with one instance,
// and says where inputs lie and outputs go. GPU memory is that of the emulated library: the
// host reaches it by copies only.

namespace endcap::fake {

struct Buffer {
  std::shared_ptr<void> memory;
  size_t bytes = 0;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
};

// A copy of `bytes` in memory of that type, and one of a buffer into host memory.
Buffer Put(std::span<const std::byte> bytes, TRITONSERVER_MemoryType type);
void Get(const Buffer& buffer, void* to);

struct Input {
  std::string name;
  TRITONSERVER_DataType data_type;
  std::vector<int64_t> shape;
  std::vector<Buffer> buffers;
};

// What becomes of a wish for an output's memory. Without: it is fulfilled.
struct OutputPolicy {
  std::optional<TRITONSERVER_MemoryType> promised;
  std::optional<TRITONSERVER_MemoryType> given;
};

struct Request {
  std::vector<Input> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, OutputPolicy> policies;
};

struct Output {
  std::vector<int64_t> shape;
  Buffer buffer;
  TRITONSERVER_MemoryType asked = TRITONSERVER_MEMORY_CPU;  // by the backend, before any promise

  template <typename T>
  std::vector<T> Values() const {
    std::vector<T> values(buffer.bytes / sizeof(T));
    Get(buffer, values.data());
    return values;
  }
};

struct Answer {
  std::string error;  // empty: it is none
  TRITONSERVER_Error_Code error_code = TRITONSERVER_ERROR_UNKNOWN;
  std::map<std::string, Output> outputs;
};

class Server {
 public:
  // parameters: as in config.pbtxt. inputs: the names that it lists, for a model without batches;
  // with none it lists no input, and batches. Throws std::runtime_error with what the backend
  // refuses.
  Server(const std::map<std::string, std::string>& parameters, TRITONSERVER_InstanceGroupKind kind,
         int device_id = 0, const std::vector<std::string>& inputs = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // One batch. Every request is answered and released once, or std::logic_error.
  std::vector<Answer> Infer(const std::vector<Request>& requests);

  // What the instance says of its readiness; empty: it is ready.
  std::string WhyNotReady();

  // The sum of a counter over its labels.
  static double Counter(const std::string& name);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace endcap::fake
