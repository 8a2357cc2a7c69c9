#include "cuda_emulation/runtime.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "memory.h"

namespace emu = endcap::emulation;

// Work waits in its stream until somebody waits for it. Positions count a stream's work.
struct CUstream_st {
  std::deque<std::function<void()>> queue;
  uint64_t enqueued = 0;
  uint64_t done = 0;
};

struct CUevent_st {
  std::shared_ptr<CUstream_st> stream;  // null: never recorded
  uint64_t position = 0;
};

namespace {

using Stream = std::shared_ptr<CUstream_st>;

// One at a time: the emulation is for answers, not for speed.
std::recursive_mutex& Lock() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}
using Guard = std::lock_guard<std::recursive_mutex>;

std::set<Stream>& Streams() {
  static auto* streams = new std::set<Stream>{std::make_shared<CUstream_st>()};
  return *streams;
}

Stream& DefaultStream() {
  static auto* stream = new Stream(*Streams().begin());
  return *stream;
}

Stream& StreamOfThisThread() {
  thread_local Stream stream = *Streams().insert(std::make_shared<CUstream_st>()).first;
  return stream;
}

Stream Find(cudaStream_t handle) {
  constexpr uintptr_t legacy = 1;      // cudaStreamLegacy
  constexpr uintptr_t per_thread = 2;  // cudaStreamPerThread
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (handle == nullptr || number == legacy) return DefaultStream();
  if (number == per_thread) return StreamOfThisThread();
  for (const Stream& stream : Streams()) {
    if (stream.get() == handle) return stream;
  }
  return nullptr;
}

void RunUntil(CUstream_st& stream, uint64_t position) {
  const emu::DeviceAccess access;
  while (stream.done < position) {
    const auto work = std::move(stream.queue.front());
    stream.queue.pop_front();
    work();
    ++stream.done;
  }
}

void RunAll() {
  for (const Stream& stream : std::vector<Stream>(Streams().begin(), Streams().end())) {
    RunUntil(*stream, stream->enqueued);
  }
}

void Push(const Stream& stream, std::function<void()> work) {
  stream->queue.push_back(std::move(work));
  ++stream->enqueued;
}

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

cudaError_t Note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

int DeviceCount() {
  const char* text = std::getenv("ENDCAP_EMULATED_DEVICES");
  return text == nullptr ? 1 : std::atoi(text);
}

}  // namespace

namespace endcap::emulation {

cudaError_t CheckLaunch(dim3 grid, dim3 block, size_t shared_bytes) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool fits = threads >= 1 && threads <= 1024 && block.z <= 64 && grid.x >= 1 &&
                    grid.x <= 0x7FFFFFFFU && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 &&
                    grid.z <= 65535 && shared_bytes <= size_t{227} << 10;
  return Note(fits ? cudaSuccess : cudaErrorInvalidConfiguration);
}

void Enqueue(cudaStream_t stream, std::function<void()> work) {
  const Guard guard(Lock());
  Push(Find(stream), std::move(work));
}

}  // namespace endcap::emulation

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    default:
      return "another CUDA error";
  }
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = DeviceCount();
  return Note(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= DeviceCount()) return Note(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= DeviceCount()) return Note(cudaErrorInvalidDevice);
  *properties = {"CUDA emulation on the CPU", 9, 0, 1, size_t{2} << 30, size_t{227} << 10, 1 << 20};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
  }
  return Note(cudaErrorInvalidValue);
}
cudaError_t cudaDeviceSynchronize() {
  const Guard guard(Lock());
  RunAll();
  return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  const bool fits = properties->allocType == cudaMemAllocationTypePinned &&
                    properties->location.type == cudaMemLocationTypeDevice &&
                    properties->location.id >= 0 && properties->location.id < DeviceCount();
  *pool = nullptr;
  return Note(fits ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const Guard guard(Lock());
  *memory = emu::AllocateDevice(bytes);
  return Note(*memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  const Guard guard(Lock());
  RunAll();
  const bool known = memory == nullptr || emu::ReleaseDevice(memory);
  return Note(known ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t) {
  return cudaMalloc(memory, bytes);
}
cudaError_t cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t,
                                    cudaStream_t stream) {
  return cudaMallocAsync(memory, bytes, stream);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t handle) {
  const Guard guard(Lock());
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  if (emu::TypeOf(memory) != cudaMemoryTypeDevice) return Note(cudaErrorInvalidValue);
  Push(stream, [memory] { emu::ReleaseDevice(memory); });
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  const Guard guard(Lock());
  *memory = emu::AllocatePinned(bytes);
  return Note(*memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return cudaMallocHost(memory, bytes);
}
cudaError_t cudaFreeHost(void* memory) {
  const Guard guard(Lock());
  RunAll();
  const bool known = memory == nullptr || emu::ReleasePinned(memory);
  return Note(known ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t handle) {
  const Guard guard(Lock());
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (emu::TypeOf(from) == cudaMemoryTypeUnregistered) {
    // Pageable memory is read before the call returns.
    const auto* first = static_cast<const char*>(from);
    auto copy = std::make_shared<std::vector<char>>(first, first + bytes);
    Push(stream, [to, copy] { std::memcpy(to, copy->data(), copy->size()); });
  } else {
    Push(stream, [to, from, bytes] { std::memmove(to, from, bytes); });
  }
  // Pageable memory is written before the call returns.
  if (emu::TypeOf(to) == cudaMemoryTypeUnregistered) RunUntil(*stream, stream->enqueued);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t handle) {
  const Guard guard(Lock());
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  Push(stream, [memory, value, bytes] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const Guard guard(Lock());
  const cudaMemoryType type = emu::TypeOf(memory);
  void* address = const_cast<void*>(memory);
  *attributes = {type, type == cudaMemoryTypeUnregistered ? -2 : 0,
                 type == cudaMemoryTypeUnregistered ? nullptr : address,
                 type == cudaMemoryTypeDevice ? nullptr : address};
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned) {
  const Guard guard(Lock());
  const auto stream = std::make_shared<CUstream_st>();
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
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  RunUntil(*stream, stream->enqueued);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  const Guard guard(Lock());
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  if (!event->stream) return cudaSuccess;
  Push(stream,
       [source = event->stream, position = event->position] { RunUntil(*source, position); });
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
  const Stream stream = Find(handle);
  if (!stream) return Note(cudaErrorInvalidResourceHandle);
  event->stream = stream;
  event->position = stream->enqueued;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Guard guard(Lock());
  if (event->stream) RunUntil(*event->stream, event->position);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Guard guard(Lock());
  const bool done = !event->stream || event->stream->done >= event->position;
  return done ? cudaSuccess : cudaErrorNotReady;  // not an error to be noted
}
