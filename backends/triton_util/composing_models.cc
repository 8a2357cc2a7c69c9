#include "triton_util/composing_models.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

namespace endcap::triton {
namespace {

constexpr uint32_t kConfigVersion = 1;

ComposingModel ReadModel(TRITONSERVER_Server* server, const std::string& name) {
  TRITONSERVER_Message* raw = nullptr;
  Check(TRITONSERVER_ServerModelConfig(server, name.c_str(), kNewestVersion, kConfigVersion, &raw));
  const MessageHandle message(raw);
  const char* text = nullptr;
  size_t size = 0;
  Check(TRITONSERVER_MessageSerializeToJson(message.get(), &text, &size));
  const nlohmann::json config = nlohmann::json::parse(text, text + size);
  ComposingModel model;
  model.name = name;
  model.max_batch_size = config.value("max_batch_size", 0);
  for (const auto& output : config.value("output", nlohmann::json::array())) {
    model.outputs.insert(output.value("name", ""));
  }
  return model;
}

void ChoosePlace(const ResponseMemory& response_memory, const char* tensor,
                 TRITONSERVER_MemoryType* memory_type, int64_t* memory_type_id) {
  if (*memory_type == TRITONSERVER_MEMORY_GPU && response_memory.gpu_outputs.contains(tensor))
    return;
  *memory_type = TRITONSERVER_MEMORY_CPU;
  *memory_type_id = 0;
}

void* AllocateOnGpu(const ResponseMemory& response_memory, int64_t device_id,
                    size_t bytes) noexcept {
  void* memory = nullptr;
  const ErrorHandle none(TRITONBACKEND_MemoryManagerAllocate(
      response_memory.manager, &memory, TRITONSERVER_MEMORY_GPU, device_id, bytes));
  return none == nullptr ? memory : nullptr;
}

TRITONSERVER_Error* Allocate(TRITONSERVER_ResponseAllocator* /*allocator*/, const char* tensor,
                             size_t bytes, TRITONSERVER_MemoryType memory_type,
                             int64_t memory_type_id, void* userp, void** buffer,
                             void** buffer_userp, TRITONSERVER_MemoryType* actual_memory_type,
                             int64_t* actual_memory_type_id) {
  return Guard([&] {
    const auto& response_memory = *static_cast<const ResponseMemory*>(userp);
    *buffer = nullptr;
    // Free needs it for memory of a GPU.
    *buffer_userp = response_memory.manager;
    *actual_memory_type = memory_type;
    *actual_memory_type_id = memory_type_id;
    ChoosePlace(response_memory, tensor, actual_memory_type, actual_memory_type_id);
    if (bytes == 0) return;
    if (*actual_memory_type == TRITONSERVER_MEMORY_GPU) {
      *buffer = AllocateOnGpu(response_memory, *actual_memory_type_id, bytes);
      if (*buffer != nullptr) return;
      *actual_memory_type = TRITONSERVER_MEMORY_CPU;
      *actual_memory_type_id = 0;
    }
    *buffer = std::malloc(bytes);
    if (*buffer == nullptr) throw std::bad_alloc();
  });
}

TRITONSERVER_Error* Free(TRITONSERVER_ResponseAllocator* /*allocator*/, void* buffer,
                         void* buffer_userp, size_t /*bytes*/, TRITONSERVER_MemoryType memory_type,
                         int64_t memory_type_id) {
  if (memory_type == TRITONSERVER_MEMORY_GPU) {
    return TRITONBACKEND_MemoryManagerFree(static_cast<TRITONBACKEND_MemoryManager*>(buffer_userp),
                                           buffer, memory_type, memory_type_id);
  }
  std::free(buffer);
  return nullptr;
}

TRITONSERVER_Error* Query(TRITONSERVER_ResponseAllocator* /*allocator*/, void* userp,
                          const char* tensor, size_t* /*bytes*/,
                          TRITONSERVER_MemoryType* memory_type, int64_t* memory_type_id) {
  return Guard([&] {
    if (tensor == nullptr) return;
    ChoosePlace(*static_cast<const ResponseMemory*>(userp), tensor, memory_type, memory_type_id);
  });
}

AllocatorHandle NewResponseAllocator() {
  TRITONSERVER_ResponseAllocator* raw = nullptr;
  Check(TRITONSERVER_ResponseAllocatorNew(&raw, Allocate, Free, nullptr));
  AllocatorHandle allocator(raw);
  Check(TRITONSERVER_ResponseAllocatorSetQueryFunction(raw, Query));
  return allocator;
}

}  // namespace

Failure MakeComposingFailure(const std::string& model, TRITONSERVER_Error_Code code,
                             const std::string& message) {
  // For the calling request these codes have another meaning: the memory of the calling model is
  // not exhausted, and its client has not cancelled.
  const bool is_own =
      code != TRITONSERVER_ERROR_UNAVAILABLE && code != TRITONSERVER_ERROR_CANCELLED;
  const ErrorCode reason = is_own ? ToErrorCode(code) : ErrorCode::kInternal;
  if (code == TRITONSERVER_ERROR_CANCELLED) code = TRITONSERVER_ERROR_INTERNAL;
  return {code, reason, "model '" + model + "': " + message, /*has_own_context=*/true};
}

ComposingModels::ComposingModels(TRITONBACKEND_Model* model, Clock::duration max_age)
    : max_age_(max_age) {
  Check(TRITONBACKEND_ModelServer(model, &server_));
  TRITONBACKEND_Backend* backend = nullptr;
  Check(TRITONBACKEND_ModelBackend(model, &backend));
  Check(TRITONBACKEND_BackendMemoryManager(backend, &manager_));
  allocator_ = NewResponseAllocator();
}

bool ComposingModels::IsReady(const std::string& model) const noexcept {
  bool ready = false;
  const ErrorHandle unknown(
      TRITONSERVER_ServerModelIsReady(server_, model.c_str(), kNewestVersion, &ready));
  return unknown == nullptr && ready;
}

const ComposingModel& ComposingModels::Describe(const std::string& model) {
  const Clock::time_point now = Clock::now();
  const auto known = models_.find(model);
  if (known != models_.end() && now - known->second.when < max_age_) return known->second.model;
  try {
    Described described{ReadModel(server_, model), now};
    return models_.insert_or_assign(model, std::move(described)).first->second.model;
  } catch (const ApiError& error) {
    throw ComposingModelError(MakeComposingFailure(model, error.code(), error.what()));
  }
}

}  // namespace endcap::triton
