#include <cuda_runtime.h>

#include <chrono>
#include <map>
#include <mutex>
#include <vector>

#include "cuda_runtime/cuda_api.h"
#include "cuda_runtime/device.h"
#include "cuda_runtime/launch.h"

namespace endcap {
namespace {

cudaStream_t Stream(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t Event(void* event) { return static_cast<cudaEvent_t>(event); }

// How long a waiting host thread looks before it sleeps: waking up takes longer than short work.
constexpr std::chrono::microseconds kAwake{50};

// An event that a host thread waits for, of the current device, taken out of those that nobody
// waits for. It is destroyed unless it is kept for others.
class WaitingEvent {
 public:
  WaitingEvent() {
    Check(cudaGetDevice(&device_), "cudaGetDevice");
    {
      const std::lock_guard lock(Mutex());
      std::vector<cudaEvent_t>& idle = Idle()[device_];
      if (!idle.empty()) {
        event_ = idle.back();
        idle.pop_back();
      }
    }
    if (event_ == nullptr) event_ = Event(CreateEvent());
  }
  ~WaitingEvent() {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }
  WaitingEvent(const WaitingEvent&) = delete;
  WaitingEvent& operator=(const WaitingEvent&) = delete;

  cudaEvent_t get() const { return event_; }
  void Keep() {
    const std::lock_guard lock(Mutex());
    Idle()[device_].push_back(event_);
    event_ = nullptr;
  }

 private:
  // Never destroyed: threads may wait while the process ends.
  static std::mutex& Mutex() {
    static auto* mutex = new std::mutex;
    return *mutex;
  }
  static std::map<int, std::vector<cudaEvent_t>>& Idle() {
    static auto* idle = new std::map<int, std::vector<cudaEvent_t>>;
    return *idle;
  }

  int device_ = 0;
  cudaEvent_t event_ = nullptr;
};

}  // namespace

void* CreateStream() {
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}

void DestroyStream(void* stream) { Check(cudaStreamDestroy(Stream(stream)), "cudaStreamDestroy"); }

void WaitForStream(void* stream) {
  if (CaptureId(stream) != 0) {
    Fail(ErrorCode::kUnsupported,
         "the stream is being captured into a CUDA graph, so that its results cannot be waited "
         "for: use Postprocessor.enqueue during the capture, or work on another stream");
  }
  WaitingEvent event;
  if (cudaEventRecord(event.get(), Stream(stream)) != cudaSuccess) {
    (void)cudaGetLastError();  // the wait says what is wrong, if it is with the stream
    return Check(cudaStreamSynchronize(Stream(stream)), "cudaStreamSynchronize");
  }
  const auto sleep_at = std::chrono::steady_clock::now() + kAwake;
  for (;;) {
    const cudaError_t error = cudaEventQuery(event.get());
    if (error == cudaSuccess) break;
    if (error != cudaErrorNotReady) Check(error, "cudaEventQuery");
    (void)cudaGetLastError();  // "not ready" must not be found as an error later
    if (std::chrono::steady_clock::now() < sleep_at) continue;
    Check(cudaEventSynchronize(event.get()), "cudaEventSynchronize");
    break;
  }
  event.Keep();
}

void CheckStream(void* stream) {
  if (CaptureId(stream) != 0) return;
  const cudaError_t error = cudaStreamQuery(Stream(stream));
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return;
  }
  Check(error, "cudaStreamQuery");
}

uint64_t CaptureId(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  const cudaError_t error = cudaStreamGetCaptureInfo(Stream(stream), &status, &id);
  if (error == cudaErrorStreamCaptureImplicit) {
    (void)cudaGetLastError();
    return kUnusableByCapture;
  }
  Check(error, "cudaStreamGetCaptureInfo");
  if (status == cudaStreamCaptureStatusInvalidated) return kUnusableByCapture;
  return status == cudaStreamCaptureStatusNone ? 0 : id;
}

void* CreateEvent() {
  cudaEvent_t event = nullptr;
  // A host thread that waits sleeps: on a server's machine others want the core.
  constexpr unsigned flags = cudaEventDisableTiming | cudaEventBlockingSync;
  Check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return event;
}

void DestroyEvent(void* event) { Check(cudaEventDestroy(Event(event)), "cudaEventDestroy"); }

void RecordEvent(void* event, void* stream) {
  Check(cudaEventRecord(Event(event), Stream(stream)), "cudaEventRecord");
}

void WaitForEvent(void* event) {
  Check(cudaEventSynchronize(Event(event)), "cudaEventSynchronize");
}

void OrderAfterEvent(void* stream, void* event) {
  Check(cudaStreamWaitEvent(Stream(stream), Event(event), 0), "cudaStreamWaitEvent");
}

}  // namespace endcap
