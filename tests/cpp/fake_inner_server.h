#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "triton_util/server_api.h"

// The in-process server API for tests of what calls it: it keeps the request that was sent, and
// answers it and gives it back when the test says so.

namespace endcap::fake {

struct SentBuffer {
  const void* data = nullptr;
  size_t bytes = 0;
  TRITONSERVER_MemoryType memory_type = TRITONSERVER_MEMORY_CPU;
};

struct SentRequest {
  std::string model;
  std::map<std::string, std::vector<SentBuffer>> inputs;
  std::vector<std::string> outputs;
  bool cancelled = false;
};

// An output that the model writes where the caller gives it memory.
struct WrittenOutput {
  std::string name;
  std::vector<int32_t> values;
  TRITONSERVER_MemoryType wanted = TRITONSERVER_MEMORY_CPU;
  std::vector<int64_t> shape = {};  // as many as values, where it is empty
  TRITONSERVER_DataType data_type = TRITONSERVER_TYPE_INT32;
};

struct InnerWorld {
  std::string missing_model;      // the server knows no such model
  bool refuses_requests = false;  // when they are sent
  bool gpu_memory_is_full = false;
  int gpu_blocks = 0;  // given and not taken back
  int requests = 0;    // made and not deleted
  int responses = 0;

  SentRequest sent;  // the last one
};
InnerWorld& World();

// Answers the request that was sent: with outputs, an error, or nothing (`response` false).
struct InnerAnswer {
  std::vector<WrittenOutput> outputs = {};
  std::string error = {};
  bool response = true;
  bool final = true;
};
void Answer(const InnerAnswer& answer);
// Gives the request back to its sender.
void ReleaseSent();

}  // namespace endcap::fake
