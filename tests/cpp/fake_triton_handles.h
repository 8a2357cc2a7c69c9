#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fake_triton.h"

// The opaque types of Triton's API, for the fake server.

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  std::string message;
};
struct TRITONSERVER_Message {
  std::string json;
};
struct TRITONSERVER_Parameter {};
struct TRITONSERVER_MetricFamily {
  std::string name;
};
struct TRITONSERVER_Metric {
  std::string name;
};
struct TRITONBACKEND_Backend {
  void* state = nullptr;
};
struct TRITONBACKEND_Model {
  TRITONBACKEND_Backend* backend;
  std::string config;
  void* state = nullptr;
};
struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model* model;
  TRITONSERVER_InstanceGroupKind kind;
  int32_t device_id;
  void* state = nullptr;
};
struct TRITONBACKEND_Input {
  const endcap::fake::Input* given;
};
struct TRITONBACKEND_Request {
  const endcap::fake::Request* given;
  std::vector<TRITONBACKEND_Input> inputs;
  std::map<std::string, TRITONSERVER_MemoryType> requested;
  endcap::fake::Response response;
  int responses = 0;
  int releases = 0;
};
struct TRITONBACKEND_Output {
  TRITONBACKEND_Request* request;
  std::string name;
  endcap::fake::Output result;
};
struct TRITONBACKEND_Response {
  TRITONBACKEND_Request* request;
  std::vector<std::unique_ptr<TRITONBACKEND_Output>> outputs;
};

namespace endcap::fake {

// State that the threads of a backend change, under the mutex; `released` is notified of each
// release.
struct Shared {
  std::mutex mutex;
  std::condition_variable released;
  std::map<std::string, double> counters;  // values of the metrics by name
};
Shared& SharedState();

std::shared_ptr<void> NewMemory(size_t bytes, TRITONSERVER_MemoryType type);

}  // namespace endcap::fake
