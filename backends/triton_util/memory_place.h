#pragma once

#include <cstdint>

#include "endcap/tensor_view.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// Host memory, pinned or not, or the memory of one GPU.
struct MemoryPlace {
  Device device = Device::kCpu;
  int device_id = 0;  // 0 for host memory

  static MemoryPlace Gpu(int device_id) noexcept { return {Device::kCuda, device_id}; }
  static MemoryPlace FromTriton(TRITONSERVER_MemoryType type, int64_t id) noexcept {
    return type == TRITONSERVER_MEMORY_GPU ? Gpu(static_cast<int>(id)) : MemoryPlace{};
  }

  bool on_gpu() const noexcept { return device == Device::kCuda; }
  TRITONSERVER_MemoryType type() const noexcept {
    return on_gpu() ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
  }
  bool operator==(const MemoryPlace&) const = default;
};

}  // namespace endcap::triton
