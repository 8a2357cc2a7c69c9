#include "triton_util/response_memory.h"

#include <cstdlib>

#include "triton_util/error_guard.h"
#include "triton_util/inner_server.h"

namespace endcap::triton {
namespace {

void ChoosePlace(const ResponsePlaces& places, const char* tensor,
                 TRITONSERVER_MemoryType* memory_type, int64_t* memory_type_id) {
  if (*memory_type == TRITONSERVER_MEMORY_GPU && places.gpu_outputs.contains(tensor)) return;
  *memory_type = TRITONSERVER_MEMORY_CPU;
  *memory_type_id = 0;
}

void* GpuMemory(const ResponsePlaces& places, int64_t device_id, size_t bytes) noexcept {
  void* memory = nullptr;
  const ErrorHandle none(TRITONBACKEND_MemoryManagerAllocate(
      places.manager, &memory, TRITONSERVER_MEMORY_GPU, device_id, bytes));
  return none == nullptr ? memory : nullptr;
}

TRITONSERVER_Error* Allocate(TRITONSERVER_ResponseAllocator* /*allocator*/, const char* tensor,
                             size_t bytes, TRITONSERVER_MemoryType memory_type,
                             int64_t memory_type_id, void* userp, void** buffer,
                             void** buffer_userp, TRITONSERVER_MemoryType* actual_memory_type,
                             int64_t* actual_memory_type_id) {
  return Guard([&] {
    const auto& places = *static_cast<const ResponsePlaces*>(userp);
    *buffer = nullptr;
    // Frees memory of a GPU.
    *buffer_userp = places.manager;
    *actual_memory_type = memory_type;
    *actual_memory_type_id = memory_type_id;
    ChoosePlace(places, tensor, actual_memory_type, actual_memory_type_id);
    if (bytes == 0) return;
    if (*actual_memory_type == TRITONSERVER_MEMORY_GPU) {
      *buffer = GpuMemory(places, *actual_memory_type_id, bytes);
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
    ChoosePlace(*static_cast<const ResponsePlaces*>(userp), tensor, memory_type, memory_type_id);
  });
}

}  // namespace

AllocatorHandle NewResponseAllocator() {
  TRITONSERVER_ResponseAllocator* raw = nullptr;
  Check(TRITONSERVER_ResponseAllocatorNew(&raw, Allocate, Free, nullptr));
  AllocatorHandle allocator(raw);
  Check(TRITONSERVER_ResponseAllocatorSetQueryFunction(raw, Query));
  return allocator;
}

}  // namespace endcap::triton
