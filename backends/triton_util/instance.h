#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "endcap/cuda.h"
#include "endcap/tensor_view.h"
#include "triton_util/tensors.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// The device of an instance: the CPU, or a GPU and one stream on it. Copies share the stream.
class ExecutionContext {
 public:
  ExecutionContext() = default;  // on the CPU
  // On a GPU, with a new stream. Throws kCuda.
  explicit ExecutionContext(int device_id)
      : device_id_(device_id), stream_(NewCudaStream(device_id)) {}

  bool on_gpu() const noexcept { return stream_ != nullptr; }
  DeviceId device() const noexcept { return {on_gpu() ? Device::kCuda : Device::kCpu, device_id_}; }
  void* stream() const noexcept { return stream_.get(); }  // null on the CPU
  // On a GPU only.
  CudaTarget target() const noexcept { return {device_id_, stream_.get()}; }
  // Where the core writes its results.
  MemoryPlace memory() const noexcept {
    return on_gpu() ? MemoryPlace::Gpu(device_id_) : MemoryPlace{};
  }
  // For copies from and to the memory of a GPU, also by an instance on the CPU.
  CudaTarget CopyTarget(const MemoryPlace& place) const noexcept {
    return on_gpu() ? target() : CudaTarget{place.device_id, nullptr};
  }

 private:
  int device_id_ = 0;
  std::shared_ptr<void> stream_;  // null on the CPU
};

// One instance of a model. The server calls Execute for an instance once at a time.
class Instance {
 public:
  explicit Instance(const ExecutionContext& execution_context) noexcept
      : execution_context_(execution_context) {}
  virtual ~Instance() = default;
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const ExecutionContext& execution_context() const noexcept { return execution_context_; }

  // Throws kCuda after an unrecoverable CUDA error, of this process or of the instance's stream.
  void CheckReady() const;

 private:
  ExecutionContext execution_context_;
};

// Reads the instance's kind and device from the server: a GPU for KIND_GPU, else the CPU. Throws
// kCuda with the remedy if that GPU cannot be used.
ExecutionContext MakeExecutionContext(TRITONBACKEND_ModelInstance* instance);

// The core's objects for the instances of one model: at most one for each GPU and one for the CPU.
// Instances share them, so that a thread count holds for all instances together. An object lives as
// long as an instance has it. Thread-safe.
template <typename Object>
class SharedByDevice {
 public:
  static constexpr int kCpu = -1;

  // Calls `make` if no instance on that device has the object. device_id: a GPU, or kCpu.
  template <typename Make>
  std::shared_ptr<Object> Get(int device_id, const Make& make) {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<Object> object = objects_[device_id].lock();
    if (object == nullptr) objects_[device_id] = object = make();
    return object;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::weak_ptr<Object>> objects_;
};

}  // namespace endcap::triton
