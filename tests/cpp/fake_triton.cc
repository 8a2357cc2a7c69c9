#include "fake_triton.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "endcap/cuda.h"
#include "fake_triton_handles.h"

namespace endcap::fake {
namespace {

constexpr std::chrono::seconds kReleaseTimeout{60};

void Require(TRITONSERVER_Error* error) {
  if (error == nullptr) return;
  const std::string message = error->message;
  delete error;
  throw std::runtime_error(message);
}

void Copy(void* to, const void* from, size_t bytes, TRITONSERVER_MemoryType gpu_or_host) {
  if (gpu_or_host == TRITONSERVER_MEMORY_GPU) {
    CopyCuda(to, from, bytes, {});
    SynchronizeCuda({});
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

std::string MakeConfig(const std::map<std::string, std::string>& parameters,
                       const std::vector<std::string>& inputs) {
  nlohmann::json config{{"max_batch_size", inputs.empty() ? 8 : 0},
                        {"parameters", nlohmann::json::object()}};
  for (const std::string& name : inputs) config["input"].push_back({{"name", name}});
  for (const auto& [name, value] : parameters) {
    config["parameters"][name] = {{"string_value", value}};
  }
  return config.dump();
}

}  // namespace

Shared& SharedState() {
  static Shared state;
  return state;
}

std::shared_ptr<void> NewMemory(size_t bytes, TRITONSERVER_MemoryType type) {
  if (type == TRITONSERVER_MEMORY_GPU) return AllocateCuda(bytes, {});
  if (type == TRITONSERVER_MEMORY_CPU_PINNED) return AllocatePinnedCuda(bytes, 0);
  return {::operator new(bytes + 1, std::align_val_t{64}),
          [](void* memory) { ::operator delete(memory, std::align_val_t{64}); }};
}

Buffer Put(std::span<const std::byte> bytes, TRITONSERVER_MemoryType type) {
  Buffer buffer{NewMemory(bytes.size(), type), bytes.size(), type};
  Copy(buffer.memory.get(), bytes.data(), bytes.size(), type);
  return buffer;
}

void Get(const Buffer& buffer, void* to) {
  Copy(to, buffer.memory.get(), buffer.bytes, buffer.type);
}

struct Server::State {
  TRITONBACKEND_Backend backend;
  TRITONBACKEND_Model model;
  TRITONBACKEND_ModelInstance instance;

  ~State() {
    if (instance.state != nullptr) delete TRITONBACKEND_ModelInstanceFinalize(&instance);
    if (model.state != nullptr) delete TRITONBACKEND_ModelFinalize(&model);
    if (backend.state != nullptr) delete TRITONBACKEND_Finalize(&backend);
  }
};

Server::Server(const std::map<std::string, std::string>& parameters,
               TRITONSERVER_InstanceGroupKind kind, int device_id,
               const std::vector<std::string>& inputs)
    : state_(std::make_unique<State>()) {
  SharedState().counters.clear();
  state_->model = {&state_->backend, MakeConfig(parameters, inputs)};
  state_->instance = {&state_->model, kind, device_id};
  Require(TRITONBACKEND_Initialize(&state_->backend));
  Require(TRITONBACKEND_ModelInitialize(&state_->model));
  Require(TRITONBACKEND_ModelInstanceInitialize(&state_->instance));
}

Server::~Server() = default;

std::vector<Response> Server::Infer(const std::vector<Request>& requests) {
  std::vector<TRITONBACKEND_Request> handles(requests.size());
  std::vector<TRITONBACKEND_Request*> pointers;
  for (size_t i = 0; i < requests.size(); ++i) {
    handles[i].given = &requests[i];
    for (const Input& input : requests[i].inputs) handles[i].inputs.push_back({&input});
    pointers.push_back(&handles[i]);
  }
  Require(TRITONBACKEND_ModelInstanceExecute(&state_->instance, pointers.data(),
                                             static_cast<uint32_t>(pointers.size())));
  const auto all_released = [&] {
    return std::ranges::all_of(handles, [](const auto& handle) { return handle.releases > 0; });
  };
  std::unique_lock lock(SharedState().mutex);
  if (!SharedState().released.wait_for(lock, kReleaseTimeout, all_released)) {
    // A thread of the backend may still use the handles.
    std::fputs("a request was not released\n", stderr);
    std::abort();
  }
  std::vector<Response> responses;
  for (TRITONBACKEND_Request& handle : handles) {
    if (handle.responses != 1 || handle.releases != 1) {
      throw std::logic_error("a request did not get one response and one release");
    }
    responses.push_back(std::move(handle.response));
  }
  return responses;
}

std::string Server::GetReadinessError() {
  const std::unique_ptr<TRITONSERVER_Error> error(
      TRITONBACKEND_ModelInstanceReady(&state_->instance));
  return error == nullptr ? "" : error->message;
}

double Server::Counter(const std::string& name) {
  const std::scoped_lock lock(SharedState().mutex);
  return SharedState().counters[name];
}

}  // namespace endcap::fake
