#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cuda/cuda_api.h"
#include "endcap/cuda.h"

namespace endcap {

// The functions of libendcap_cuda.so as the core calls them: errors are exceptions.

// The table. Throws kCuda when there is no usable one.
const CudaApi& Cuda();

// The same without a check, for destructors: what they give back came from it.
const CudaApi& CudaInUse() noexcept;

// Throws what a call of the table came to, as an Error; nothing for 0.
void CheckCuda(int32_t code);

// The capture that takes what is enqueued into a graph; 0: none, it is done. Throws kCuda.
uint64_t CaptureIdCuda(const CudaTarget& target);
// Throws kUnsupported during a capture; `what` cannot be captured: "preprocess".
void RefuseCapture(const CudaTarget& target, std::string_view what);

// Owns what its name says; movable, not copyable. Destructors swallow nothing that can be acted on:
// a failed release leaves the memory to the process's end.
class CudaStream {
 public:
  explicit CudaStream(int device_id);
  ~CudaStream();
  CudaStream(CudaStream&& other) noexcept;
  CudaStream& operator=(CudaStream&& other) noexcept;
  void* get() const noexcept { return stream_; }
  void Wait() const;
  // For destructors: a broken device has nothing left to wait for, and whoever broke it has been
  // told.
  void WaitUnlessBroken() const noexcept;

 private:
  int device_id_;
  void* stream_ = nullptr;
};

class CudaEvent {
 public:
  explicit CudaEvent(int device_id);
  ~CudaEvent();
  CudaEvent(CudaEvent&& other) noexcept;
  CudaEvent& operator=(CudaEvent&& other) noexcept;
  void Record(void* stream);
  void Wait() const;                       // the host waits; at once when it was never recorded
  void WaitUnlessBroken() const noexcept;  // see CudaStream
  void OrderAfter(void* stream) const;     // `stream` waits

 private:
  int device_id_;
  void* event_ = nullptr;
};

// Memory that only grows: Reserve keeps what is there when it is enough, else replaces it (its
// contents are lost; nothing on a stream may still use it). Steady state allocates nothing.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(int device_id) : device_id_(device_id) {}
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  void Reserve(size_t bytes);
  uint8_t* data() const noexcept { return data_; }
  size_t capacity() const noexcept { return capacity_; }

 private:
  int device_id_;
  uint8_t* data_ = nullptr;
  size_t capacity_ = 0;
};

class DeviceBuffer {
 public:
  explicit DeviceBuffer(int device_id) : device_id_(device_id) {}
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  // In the order of `stream`: what is enqueued there afterwards may use the memory.
  void Reserve(size_t bytes, void* stream);
  uint8_t* data() const noexcept { return data_; }
  size_t capacity() const noexcept { return capacity_; }

 private:
  int device_id_;
  uint8_t* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace endcap
