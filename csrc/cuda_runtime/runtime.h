#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "cuda_runtime/cuda_api.h"
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
template <void (*kRelease)(int device_id, void* object)>
struct CudaRelease {
  int device_id;
  void operator()(void* object) const noexcept { kRelease(device_id, object); }
};
void ReleaseStream(int device_id, void* stream);
void ReleaseEvent(int device_id, void* event);
void ReleasePinnedBuffer(int device_id, void* memory);
void ReleaseDeviceBuffer(int device_id, void* memory);

class CudaStream {
 public:
  explicit CudaStream(int device_id);
  void* get() const noexcept { return stream_.get(); }
  void Wait() const;
  // For destructors: ignores errors. The call that caused an unrecoverable error has reported it.
  void WaitUnlessBroken() const noexcept;

 private:
  std::unique_ptr<void, CudaRelease<ReleaseStream>> stream_;
};

class CudaEvent {
 public:
  explicit CudaEvent(int device_id);
  void Record(void* stream);
  void Wait() const;                       // the host waits; returns at once if never recorded
  void WaitUnlessBroken() const noexcept;  // see CudaStream
  void OrderAfter(void* stream) const;     // `stream` waits

 private:
  std::unique_ptr<void, CudaRelease<ReleaseEvent>> event_;
};

// Memory that only grows: Reserve keeps the allocation if it is large enough, else replaces it (its
// contents are lost; no work on a stream may still use it). Steady state allocates nothing.
template <void (*kRelease)(int device_id, void* memory)>
class CudaBuffer {
 public:
  explicit CudaBuffer(int device_id) : memory_(nullptr, {device_id}) {}
  uint8_t* data() const noexcept { return static_cast<uint8_t*>(memory_.get()); }
  size_t capacity() const noexcept { return memory_ == nullptr ? 0 : capacity_; }

 protected:
  int device_id() const noexcept { return memory_.get_deleter().device_id; }
  // The least that replaces a buffer that has become too small, so that sizes that creep up do not
  // allocate at every step.
  size_t Grown(size_t wanted) const { return std::max(wanted, capacity() + capacity() / 2); }
  void Set(void* memory, size_t bytes) {
    memory_.reset(memory);
    capacity_ = bytes;
  }

  std::unique_ptr<void, CudaRelease<kRelease>> memory_;

 private:
  size_t capacity_ = 0;
};

class PinnedBuffer : public CudaBuffer<ReleasePinnedBuffer> {
 public:
  using CudaBuffer::CudaBuffer;
  void Reserve(size_t bytes);
};

class DeviceBuffer : public CudaBuffer<ReleaseDeviceBuffer> {
 public:
  using CudaBuffer::CudaBuffer;
  // Stream-ordered: work that is enqueued on `stream` afterwards may use the memory.
  void Reserve(size_t bytes, void* stream);
};

}  // namespace endcap
