#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triton_util/triton_api.h"

// A fake of the in-process server API: it keeps the request that was sent; the test sends the
// response and releases the request.

namespace endcap::fake {

// An output of the model, written into the memory that the caller allocates.
struct WrittenOutput {
  std::string name;
  std::vector<int32_t> values;
  TRITONSERVER_MemoryType preferred = TRITONSERVER_MEMORY_CPU;
  std::vector<int64_t> shape = {};  // empty: [number of values]
  TRITONSERVER_DataType data_type = TRITONSERVER_TYPE_INT32;
};

struct FakeServer {
  std::string missing_model;      // the server has no such model
  bool refuses_requests = false;  // when they are sent
  bool gpu_memory_is_full = false;
  int gpu_blocks = 0;  // allocated and not freed
  int requests = 0;    // created and not deleted
  int responses = 0;
};
FakeServer& GetServer();

// The response to the request that was sent: outputs, an error, or none (`response` false).
struct FakeResponse {
  std::vector<WrittenOutput> outputs = {};
  std::string error = {};
  bool response = true;
  bool final = true;
};
void Respond(const FakeResponse& response);
// Calls the release callback of the request.
void ReleaseSent();

}  // namespace endcap::fake
