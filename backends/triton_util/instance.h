#pragma once

#include <memory>

#include "endcap/cuda.h"
#include "triton_util/memory_place.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// Where an instance of a model works. On a GPU its work goes to one stream.
class Workplace {
 public:
  Workplace() = default;  // on the CPU
  // On a GPU, with a stream of its own, which copies of the workplace share. Throws kCuda.
  explicit Workplace(int device_id) : device_id_(device_id), stream_(NewCudaStream(device_id)) {}

  bool on_gpu() const noexcept { return stream_ != nullptr; }
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
  explicit Instance(const Workplace& workplace) noexcept : workplace_(workplace) {}
  virtual ~Instance() = default;
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const Workplace& workplace() const noexcept { return workplace_; }

  // Throws kCuda where the instance cannot answer any more: after an unrecoverable CUDA error, in
  // this process's work or in that of its own stream.
  void CheckReady() const;

 private:
  Workplace workplace_;
};

// What the server says of the instance: a GPU for KIND_GPU, else the CPU. Throws kCuda with a
// sentence where that GPU cannot be used.
Workplace WorkplaceOf(TRITONBACKEND_ModelInstance* instance);

}  // namespace endcap::triton
