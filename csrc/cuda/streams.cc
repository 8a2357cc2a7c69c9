#include "cuda/streams.h"

#include <cuda_runtime.h>

#include "cuda/launch.h"

namespace endcap {
namespace {

cudaStream_t Stream(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t Event(void* event) { return static_cast<cudaEvent_t>(event); }

}  // namespace

void* CreateStream() {
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}

void DestroyStream(void* stream) { Check(cudaStreamDestroy(Stream(stream)), "cudaStreamDestroy"); }

void WaitForStream(void* stream) {
  Check(cudaStreamSynchronize(Stream(stream)), "cudaStreamSynchronize");
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
