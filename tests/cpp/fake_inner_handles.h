#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fake_inner_server.h"

// What the in-process server API leaves open, for tests.

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  std::string message;
};
struct TRITONSERVER_Message {
  std::string json;
};
struct TRITONSERVER_ResponseAllocator {
  TRITONSERVER_ResponseAllocatorAllocFn_t allocate;
  TRITONSERVER_ResponseAllocatorReleaseFn_t release;
  TRITONSERVER_ResponseAllocatorQueryFn_t query = nullptr;
};
struct TRITONSERVER_InferenceRequest {
  endcap::fake::SentRequest content;
  TRITONSERVER_ResponseAllocator* allocator = nullptr;
  void* allocator_userp = nullptr;
  TRITONSERVER_InferenceRequestReleaseFn_t release = nullptr;
  void* release_userp = nullptr;
  TRITONSERVER_InferenceResponseCompleteFn_t complete = nullptr;
  void* complete_userp = nullptr;
};

namespace endcap::fake {

// One output, in the memory that the caller gave.
struct Block {
  std::string name;
  std::vector<int64_t> shape;
  TRITONSERVER_DataType data_type = TRITONSERVER_TYPE_INT32;
  void* data = nullptr;
  void* userp = nullptr;
  size_t bytes = 0;
  TRITONSERVER_MemoryType memory_type = TRITONSERVER_MEMORY_CPU;
  int64_t memory_type_id = 0;
};

// The request that was sent last.
TRITONSERVER_InferenceRequest*& Sent();

}  // namespace endcap::fake

struct TRITONSERVER_InferenceResponse {
  TRITONSERVER_ResponseAllocator* allocator;
  std::unique_ptr<TRITONSERVER_Error> error;
  std::vector<endcap::fake::Block> blocks;
};
