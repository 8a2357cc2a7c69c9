#include "cuda_runtime/runtime.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "common/fail.h"
#include "cuda_runtime/library_loader.h"

namespace endcap {
const CudaApi& Cuda() {
  const CudaLibrary& library = GetCudaLibrary();
  if (library.api == nullptr) {
    Fail(ErrorCode::kCuda, "CUDA cannot be used: ", library.state.reason);
  }
  return *library.api;
}

const CudaApi& CudaInUse() noexcept { return *GetCudaLibrary().api; }

void CheckCuda(int32_t code) {
  if (code != 0) throw Error(static_cast<ErrorCode>(code), Cuda().last_message());
}

void RequireCuda(int device_id) {
  Cuda();
  const std::vector<CudaDevice>& devices = DescribeCuda().devices;
  const auto count = static_cast<int>(devices.size());
  if (device_id < 0 || device_id >= count) {
    Fail(ErrorCode::kCuda, "device cuda:", device_id, " does not exist: this process has ", count,
         count == 1 ? " GPU, cuda:0" : " GPUs, from cuda:0 on");
  }
  const CudaDevice& device = devices[static_cast<size_t>(device_id)];
  if (!device.covered) {
    Fail(ErrorCode::kCuda, "device cuda:", device_id, " (", device.name,
         ") has compute capability ", device.compute_major, ".", device.compute_minor,
         ", and this build has code for ", DescribeCuda().architectures);
  }
}

int FindCudaDevice(const void* memory) noexcept {
  const CudaApi* api = GetCudaLibrary().api;
  CudaMemoryPlace place;
  if (api == nullptr || api->locate(memory, &place) != 0) return -1;
  return place.kind == CudaMemoryKind::kDevice ? place.device : -1;
}

std::shared_ptr<void> NewCudaStream(int device_id) {
  const auto stream = std::make_shared<CudaStream>(device_id);
  return {stream, stream->get()};
}

namespace {

// The streams that have used memory of AllocateCuda besides its own.
struct Consumers {
  std::mutex mutex;
  std::vector<void*> streams;
  std::vector<std::shared_ptr<void>> owners;  // that keep the streams
  bool after_all = false;                     // others as well, of which nothing is known
};

// Memory that could not be freed because of a capture.
struct KeptMemory {
  int device_id;
  void* memory;
  std::shared_ptr<Consumers> consumers;
};

// Tries to free; false where a capture forbids it.
bool TryRelease(const KeptMemory& kept) noexcept {
  bool released = true;
  const Consumers& consumers = *kept.consumers;
  // An error is ignored: the call that made the device unusable has reported it.
  (void)CudaInUse().release_after(kept.device_id, kept.memory, consumers.streams.data(),
                                  static_cast<int32_t>(consumers.streams.size()),
                                  consumers.after_all, &released);
  return released;
}

// Frees memory now, or after the capture that forbids it: at a later call, while the owners of the
// streams keep these. Memory of a captured stream without an owner is not freed, because its
// lifetime is unknown. Thread-safe.
class KeptMemories {
 public:
  void Release(KeptMemory released, bool streams_are_owned) {
    // A wait for all streams would end whatever capture there is, so that kept memory which needs
    // it is left to one that comes anyway.
    Retry(released.consumers->after_all);
    if (!TryRelease(released) && streams_are_owned) Keep({std::move(released)});
  }

  void Retry(bool after_all = false) {
    if (count_ == 0) return;
    // Not under the mutex: owners of streams may take locks when they go.
    std::vector<KeptMemory> waiting;
    {
      const std::lock_guard lock(mutex_);
      waiting.swap(kept_);
      count_ = 0;
    }
    std::erase_if(waiting, [&](const KeptMemory& kept) {
      return (after_all || !kept.consumers->after_all) && TryRelease(kept);
    });
    Keep(std::move(waiting));
  }

 private:
  void Keep(std::vector<KeptMemory> more) {
    const std::lock_guard lock(mutex_);
    std::ranges::move(more, std::back_inserter(kept_));
    count_ = kept_.size();
  }

  std::mutex mutex_;
  std::vector<KeptMemory> kept_;
  std::atomic<size_t> count_ = 0;
};

KeptMemories& TheKeptMemories() {
  static auto* memories = new KeptMemories;  // never destroyed: threads may release at the end
  return *memories;
}

// Frees memory of AllocateCuda.
class DeviceMemoryDeleter {
 public:
  // stream_owner: keeps the target's stream; may be null. allocated_in: the capture that the
  // allocation is part of, or 0.
  DeviceMemoryDeleter(const CudaTarget& target, std::shared_ptr<void> stream_owner,
                      uint64_t allocated_in)
      : target_(target),
        stream_owner_(std::move(stream_owner)),
        allocated_in_(allocated_in),
        consumers_(std::make_shared<Consumers>()) {}

  void operator()(void* memory) const {
    const CudaApi& cuda = CudaInUse();
    uint64_t capture = kUnusableByCapture;
    (void)cuda.capture_id(target_.device_id, target_.stream, &capture);
    // A graph frees its own allocations; those of an invalid capture do not exist.
    if (allocated_in_ != 0 && capture == kUnusableByCapture) return;
    const bool in_order = capture == 0 || capture == allocated_in_;
    if (consumers_->streams.empty() && !consumers_->after_all && in_order) {
      (void)cuda.release(target_.device_id, memory, target_.stream);
      TheKeptMemories().Retry();
      return;
    }
    const bool is_owned = stream_owner_ != nullptr || target_.stream == nullptr;
    consumers_->streams.push_back(target_.stream);
    consumers_->owners.push_back(stream_owner_);
    TheKeptMemories().Release({target_.device_id, memory, consumers_}, is_owned);
  }

  void AddConsumer(void* stream, std::shared_ptr<void> stream_owner) const {
    if (stream == target_.stream) return;
    const std::lock_guard lock(consumers_->mutex);
    if (stream_owner == nullptr && stream != nullptr) {
      consumers_->after_all = true;
      return;
    }
    if (std::ranges::find(consumers_->streams, stream) != consumers_->streams.end()) return;
    consumers_->streams.push_back(stream);
    consumers_->owners.push_back(std::move(stream_owner));
  }

 private:
  CudaTarget target_;
  std::shared_ptr<void> stream_owner_;
  uint64_t allocated_in_;
  std::shared_ptr<Consumers> consumers_;
};

}  // namespace

std::shared_ptr<void> AllocateCuda(size_t bytes, const CudaTarget& target,
                                   std::shared_ptr<void> stream_owner) {
  DeviceMemoryDeleter deleter(target, std::move(stream_owner), CaptureIdCuda(target));
  void* memory = nullptr;
  // A tensor without elements has an address too.
  CheckCuda(Cuda().allocate(target.device_id, std::max(bytes, size_t{1}), target.stream, &memory));
  return {memory, std::move(deleter)};
}

std::shared_ptr<uint8_t> AllocatePinnedCuda(size_t bytes, int device_id) {
  const auto buffer = std::make_shared<PinnedBuffer>(device_id);
  buffer->Reserve(std::max(bytes, size_t{1}));
  return {buffer, buffer->data()};
}

void AddCudaConsumer(const std::shared_ptr<void>& memory, void* stream,
                     std::shared_ptr<void> stream_owner) {
  const auto* deleter = std::get_deleter<DeviceMemoryDeleter>(memory);
  if (deleter != nullptr) deleter->AddConsumer(stream, std::move(stream_owner));
}

bool CudaNeedsRestart() noexcept {
  const CudaApi* api = GetCudaLibrary().api;
  return api != nullptr && api->needs_restart();
}

void CopyCuda(void* to, const void* from, size_t bytes, const CudaTarget& target) {
  if (bytes != 0) CheckCuda(Cuda().copy(target.device_id, to, from, bytes, target.stream));
}

void SynchronizeCuda(const CudaTarget& target) {
  CheckCuda(Cuda().wait_stream(target.device_id, target.stream));
}

void CheckCudaStream(const CudaTarget& target) {
  CheckCuda(Cuda().check_stream(target.device_id, target.stream));
}

uint64_t CaptureIdCuda(const CudaTarget& target) {
  uint64_t id = 0;
  CheckCuda(Cuda().capture_id(target.device_id, target.stream, &id));
  return id;
}

void RefuseCapture(const CudaTarget& target, std::string_view what) {
  if (CaptureIdCuda(target) == 0) return;
  Fail(ErrorCode::kUnsupported, what,
       " cannot be part of a CUDA graph, and its stream is being captured into one: call it before "
       "the capture begins, or on another stream");
}

void OrderCudaAfter(const CudaTarget& target, void* before) {
  if (target.stream == before) return;
  if (CaptureIdCuda(target) != CaptureIdCuda({target.device_id, before})) {
    Fail(ErrorCode::kUnsupported,
         "an array of one stream is used on another while one of them is being captured into a "
         "CUDA graph: use the stream that the array was made on, or copy the array before the "
         "capture begins");
  }
  CudaEvent event(target.device_id);
  event.Record(before);
  event.OrderAfter(target.stream);
}

void ReleaseStream(int device_id, void* stream) {
  (void)CudaInUse().destroy_stream(device_id, stream);
}
void ReleaseEvent(int device_id, void* event) { (void)CudaInUse().destroy_event(device_id, event); }
void ReleasePinnedBuffer(int device_id, void* memory) {
  (void)CudaInUse().release_pinned(device_id, memory);
}
void ReleaseDeviceBuffer(int device_id, void* memory) {
  // Nothing uses it any more. Not on the legacy default stream, which a capture may make unusable.
  bool released = false;
  (void)CudaInUse().release_after(device_id, memory, nullptr, 0, false, &released);
}

CudaStream::CudaStream(int device_id) : stream_(nullptr, {device_id}) {
  void* stream = nullptr;
  CheckCuda(Cuda().create_stream(device_id, &stream));
  stream_.reset(stream);
}

void CudaStream::Wait() const {
  CheckCuda(Cuda().wait_stream(stream_.get_deleter().device_id, get()));
}

void CudaStream::WaitUnlessBroken() const noexcept {
  (void)CudaInUse().wait_stream(stream_.get_deleter().device_id, get());
}

CudaEvent::CudaEvent(int device_id) : event_(nullptr, {device_id}) {
  void* event = nullptr;
  CheckCuda(Cuda().create_event(device_id, &event));
  event_.reset(event);
}

void CudaEvent::Record(void* stream) {
  CheckCuda(Cuda().record_event(event_.get_deleter().device_id, event_.get(), stream));
}

void CudaEvent::Wait() const {
  CheckCuda(Cuda().wait_event(event_.get_deleter().device_id, event_.get()));
}

void CudaEvent::WaitUnlessBroken() const noexcept {
  (void)CudaInUse().wait_event(event_.get_deleter().device_id, event_.get());
}

void CudaEvent::OrderAfter(void* stream) const {
  CheckCuda(Cuda().order_after_event(event_.get_deleter().device_id, stream, event_.get()));
}

void PinnedBuffer::Reserve(size_t bytes) {
  if (bytes <= capacity()) return;
  const size_t size = Grown(bytes);
  if (void* old = memory_.release()) CheckCuda(Cuda().release_pinned(device_id(), old));
  void* memory = nullptr;
  CheckCuda(Cuda().allocate_pinned(device_id(), size, &memory));
  Set(memory, size);
}

void DeviceBuffer::Reserve(size_t bytes, void* stream) {
  if (bytes <= capacity()) return;
  const size_t size = Grown(bytes);
  if (void* old = memory_.release()) CheckCuda(Cuda().release(device_id(), old, stream));
  void* memory = nullptr;
  CheckCuda(Cuda().allocate(device_id(), size, stream, &memory));
  Set(memory, size);
}

}  // namespace endcap
