#include "streams.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "memory.h"

namespace endcap::emulation {
namespace {

std::recursive_mutex lock;
int running_stream = 0;
bool capture_was_harmed = false;
int waits = 0;
cudaError_t fault = cudaSuccess;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

Stream MakeStream() {
  static int count = 0;
  auto stream = std::make_shared<CUstream_st>();
  stream->number = count++;
  return stream;
}

std::set<Stream>& Streams() {
  static auto* streams = new std::set<Stream>{MakeStream()};
  return *streams;
}

Stream& DefaultStream() {
  static auto* stream = new Stream(*Streams().begin());
  return *stream;
}

Stream& GetThreadStream() {
  thread_local Stream stream = *Streams().insert(MakeStream()).first;
  return stream;
}

}  // namespace

std::recursive_mutex& Lock() { return lock; }

Stream Find(cudaStream_t handle) {
  constexpr uintptr_t legacy = 1;      // cudaStreamLegacy
  constexpr uintptr_t per_thread = 2;  // cudaStreamPerThread
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (handle == nullptr || number == legacy) return DefaultStream();
  if (number == per_thread) return GetThreadStream();
  for (const Stream& stream : Streams()) {
    if (stream.get() == handle) return stream;
  }
  return nullptr;
}

void RunUntil(CUstream_st& stream, uint64_t position) {
  const DeviceAccess access;
  const Observed waiting(Observed::Caller::kThis);
  while (stream.done < position) {
    const auto work = std::move(stream.queue.front());
    stream.queue.pop_front();
    const int outer = std::exchange(running_stream, stream.number);
    stream.observed.Enter();
    work->before.Learn();
    RunOnOwnStack(work->function);
    stream.work_done.Tell();
    waiting.Enter();
    running_stream = outer;
    ++stream.done;
    stream.work_done.Learn();
  }
  stream.work_done.Learn();
}

int RunningStream() { return running_stream; }

std::vector<Stream> AllStreams() { return {Streams().begin(), Streams().end()}; }

void RunAll() {
  for (const Stream& stream : AllStreams()) RunUntil(*stream, stream->enqueued);
}

cudaError_t HarmCapture(cudaError_t error) {
  capture_was_harmed = true;
  return Note(error);
}

cudaError_t Refusal(Call call) {
  const Guard guard(Lock());
  if (fault != cudaSuccess) return Note(fault);
  const bool captures = std::ranges::any_of(Streams(), [](auto& s) { return s->captures; });
  if (call == Call::kSafe || !captures || capture_mode == cudaStreamCaptureModeRelaxed) {
    return cudaSuccess;
  }
  return HarmCapture(cudaErrorStreamCaptureUnsupported);
}

void KnowAll() {
  for (const Stream& stream : Streams()) stream->work_done.Learn();
}

void Push(const Stream& stream, std::function<void()> function) {
  auto work = std::make_unique<CUstream_st::Work>();
  work->function = std::move(function);
  work->before.Tell();
  stream->queue.push_back(std::move(work));
  ++stream->enqueued;
}

void Enqueue(cudaStream_t stream, std::function<void()> work) {
  const Guard guard(Lock());
  Push(Find(stream), std::move(work));
}

}  // namespace endcap::emulation

using namespace endcap::emulation;

cudaError_t cudaDeviceSynchronize() {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kUnsafe);
  RunAll();
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kSafe);
  const Stream stream = MakeStream();
  stream->is_blocking = (flags & cudaStreamNonBlocking) == 0;
  Streams().insert(stream);
  *handle = stream.get();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const Guard guard(Lock());
  const Stream stream = Find(handle);
  if (!stream || handle == nullptr) return Note(cudaErrorInvalidResourceHandle);
  RunUntil(*stream, stream->enqueued);
  Streams().erase(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kUnsafe);
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  if (stream->captures) return HarmCapture(cudaErrorStreamCaptureUnsupported);
  if (stream->done < stream->enqueued) ++waits;
  RunUntil(*stream, stream->enqueued);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kUnsafe);
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  if (stream->captures) return HarmCapture(cudaErrorStreamCaptureUnsupported);
  return stream->done == stream->enqueued ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id) {
  const Guard guard(Lock());
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  if (stream == DefaultStream() && !stream->captures) {
    const auto captures = [](const Stream& s) { return s->captures && s->is_blocking; };
    if (std::ranges::any_of(Streams(), captures)) return Note(cudaErrorStreamCaptureImplicit);
  }
  *status = stream->captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (stream->captures && stream->capture_is_invalid) {
    *status = cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;  // without an id
  }
  *id = stream->capture_id();
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(capture_mode, *mode);
  return cudaSuccess;
}
void EndcapEmulateCapture(cudaStream_t handle, bool captures) {
  const Guard guard(Lock());
  Find(handle)->captures = captures;
  Find(handle)->capture_is_invalid = false;
}
void EndcapEmulateInvalidCapture(cudaStream_t handle) {
  const Guard guard(Lock());
  Find(handle)->capture_is_invalid = true;
}
void EndcapEmulateBlockingStream(cudaStream_t handle) {
  const Guard guard(Lock());
  Find(handle)->is_blocking = true;
}
void EndcapEmulatedRunAll() {
  const Guard guard(Lock());
  RunAll();
}
int EndcapEmulatedWaits() {
  const Guard guard(Lock());
  return waits;
}
bool EndcapEmulatedCaptureWasHarmed() {
  const Guard guard(Lock());
  return std::exchange(capture_was_harmed, false);
}
void EndcapEmulateFault(int error) {
  const Guard guard(Lock());
  fault = static_cast<cudaError_t>(error);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  const Guard guard(Lock());
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  if (event->recorded.empty()) return cudaSuccess;
  // CUDA lets a captured event pull another stream into the capture: nothing here wants that.
  if (event->capture != stream->capture_id()) return HarmCapture(cudaErrorStreamCaptureIsolation);
  Push(stream, [recorded = event->recorded] {
    for (const auto& [source, position] : recorded) RunUntil(*source, position);
  });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kSafe);
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  event->recorded = {{stream, stream->enqueued}};
  event->capture = stream->capture_id();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kUnsafe);
  if (event->capture != 0) return HarmCapture(cudaErrorCapturedEvent);
  const auto is_pending = [](const auto& recorded) {
    return recorded.stream->done < recorded.position;
  };
  if (std::ranges::any_of(event->recorded, is_pending)) ++waits;
  for (const auto& [stream, position] : event->recorded) RunUntil(*stream, position);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Guard guard(Lock());
  ENDCAP_REFUSE(Call::kUnsafe);
  if (event->capture != 0) return HarmCapture(cudaErrorCapturedEvent);
  for (const auto& [stream, position] : event->recorded) {
    if (stream->done < position) return cudaErrorNotReady;  // not an error to be noted
  }
  for (const auto& [stream, position] : event->recorded) RunUntil(*stream, position);
  return cudaSuccess;
}
