#pragma once

#include <cstdint>

#include "endcap/tensor_view.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// Host memory or the memory of one GPU.
struct MemoryPlace {
  Device device = Device::kCpu;
  int device_id = 0;    // 0 for host memory
  bool pinned = false;  // of host memory: a GPU copies to it asynchronously

  static MemoryPlace Gpu(int device_id) noexcept { return {Device::kCuda, device_id, false}; }
  static MemoryPlace Pinned() noexcept { return {Device::kCpu, 0, true}; }
  static MemoryPlace FromTriton(TRITONSERVER_MemoryType type, int64_t id) noexcept {
    if (type == TRITONSERVER_MEMORY_GPU) return Gpu(static_cast<int>(id));
    return type == TRITONSERVER_MEMORY_CPU_PINNED ? Pinned() : MemoryPlace{};
  }

  bool on_gpu() const noexcept { return device == Device::kCuda; }
  TRITONSERVER_MemoryType type() const noexcept {
    if (on_gpu()) return TRITONSERVER_MEMORY_GPU;
    return pinned ? TRITONSERVER_MEMORY_CPU_PINNED : TRITONSERVER_MEMORY_CPU;
  }
  // Whether the same processor reads and writes it in place: pinned or not makes no difference.
  bool operator==(const MemoryPlace& other) const noexcept {
    return device == other.device && device_id == other.device_id;
  }
};

}  // namespace endcap::triton
