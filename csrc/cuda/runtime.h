#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cuda/cuda_api.h"
#include "endcap/cuda.h"

namespace endcap {

// The functions of libendcap_cuda.so as the core calls them: errors are exceptions.

// The table of the loaded library. Throws kCuda where CUDA cannot be used.
const CudaApi& Cuda();

// The same without a check, for destructors of objects that were made through the table.
const CudaApi& CudaInUse() noexcept;

// Throws Error with the code that a call of the table returned and the library's message; returns
// for 0.
void CheckCuda(int32_t code);

// The id of the graph capture that the target's stream takes part in; 0: none. Throws kCuda.
uint64_t CaptureIdCuda(const CudaTarget& target);
// Throws kUnsupported during a capture of the target's stream. `what` names the operation in the
// error message: "preprocess".
void RefuseCapture(const CudaTarget& target, std::string_view what);

// The following classes own one CUDA object each; movable, not copyable. A destructor ignores a
// failed release: the object then exists until the process ends. Not thread-safe.
class CudaStream {
 public:
  explicit CudaStream(int device_id);
  ~CudaStream();
  CudaStream(CudaStream&& other) noexcept;
  CudaStream& operator=(CudaStream&& other) noexcept;
  void* get() const noexcept { return stream_; }
  void Wait() const;
  // For destructors: ignores errors. The call that caused an unrecoverable error has reported it.
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
  void Wait() const;                       // the host waits; returns at once if never recorded
  void WaitUnlessBroken() const noexcept;  // see CudaStream
  void OrderAfter(void* stream) const;     // `stream` waits

 private:
  int device_id_;
  void* event_ = nullptr;
};

// Memory that only grows: Reserve keeps the allocation if it is large enough, else replaces it (its
// contents are lost; no work on a stream may still use it). Steady state allocates nothing.
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
  // Stream-ordered: work that is enqueued on `stream` afterwards may use the memory.
  void Reserve(size_t bytes, void* stream);
  uint8_t* data() const noexcept { return data_; }
  size_t capacity() const noexcept { return capacity_; }

 private:
  int device_id_;
  uint8_t* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace endcap
