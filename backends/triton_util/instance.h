#pragma once

#include <memory>

#include "endcap/cuda.h"
#include "endcap/tensor_view.h"
#include "triton_util/memory_place.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// Where an instance of a model works. On a GPU its work goes to one stream.
class ExecutionContext {
 public:
  ExecutionContext() = default;  // on the CPU
  // On a GPU, with a stream of its own, which copies of the execution_context share. Throws kCuda.
  explicit ExecutionContext(int device_id)
      : device_id_(device_id), stream_(NewCudaStream(device_id)) {}

  bool on_gpu() const noexcept { return stream_ != nullptr; }
  DeviceId device() const noexcept {
    return {on_gpu() ? Device::kCuda : Device::kCpu, device_id_};
  }
  void* stream() const noexcept { return stream_.get(); }  // null on the CPU
  // On a GPU only.
  CudaTarget target() const noexcept { return {device_id_, stream_.get()}; }
  // Where results come into being.
  MemoryPlace memory() const noexcept {
    return on_gpu() ? MemoryPlace::Gpu(device_id_) : MemoryPlace{};
  }
  // For copies from and to the memory of a GPU, which needs no instance on it.
  CudaTarget CopyTarget(const MemoryPlace& place) const noexcept {
    return on_gpu() ? target() : CudaTarget{place.device_id, nullptr};
  }

 private:
  int device_id_ = 0;
  std::shared_ptr<void> stream_;  // null on the CPU
};

// One instance of a model, as the server keeps it; Execute runs once at a time on each.
class Instance {
 public:
  explicit Instance(const ExecutionContext& execution_context) noexcept
      : execution_context_(execution_context) {}
  virtual ~Instance() = default;
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const ExecutionContext& execution_context() const noexcept { return execution_context_; }

  // Throws kCuda where the instance cannot answer any more: after an unrecoverable CUDA error, in
  // this process's work or in that of its own stream.
  void CheckReady() const;

 private:
  ExecutionContext execution_context_;
};

// What the server says of the instance: a GPU for KIND_GPU, else the CPU. Throws kCuda with a
// message where that GPU cannot be used.
ExecutionContext MakeExecutionContext(TRITONBACKEND_ModelInstance* instance);

}  // namespace endcap::triton
