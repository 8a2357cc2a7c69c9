#include "cuda/runtime.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "common/fail.h"
#include "cuda/cuda_library.h"

namespace endcap {
namespace {

// The least that replaces a buffer that has become too small, so that sizes that creep up do not
// allocate at every step.
size_t Grown(size_t capacity, size_t wanted) { return std::max(wanted, capacity + capacity / 2); }

}  // namespace

const CudaApi& Cuda() {
  const CudaLibrary& library = TheCudaLibrary();
  if (library.api == nullptr) {
    Fail(ErrorCode::kCuda, "CUDA cannot be used: ", library.state.reason);
  }
  return *library.api;
}

const CudaApi& CudaInUse() noexcept { return *TheCudaLibrary().api; }

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

int CudaDeviceOf(const void* memory) noexcept {
  const CudaApi* api = TheCudaLibrary().api;
  CudaMemoryKind kind = CudaMemoryKind::kHost;
  int32_t device = -1;
  if (api == nullptr || api->locate(memory, &kind, &device) != 0) return -1;
  return kind == CudaMemoryKind::kDevice ? device : -1;
}

std::shared_ptr<void> NewCudaStream(int device_id) {
  const auto stream = std::make_shared<CudaStream>(device_id);
  return {stream, stream->get()};
}

namespace {

// Frees memory of AllocateCuda.
class DeviceMemoryDeleter {
 public:
  // allocated_in: the capture that the allocation is part of, or 0.
  DeviceMemoryDeleter(const CudaTarget& target, uint64_t allocated_in)
      : target_(target), allocated_in_(allocated_in), consumers_(std::make_shared<Consumers>()) {}

  void operator()(void* memory) const {
    const CudaApi& cuda = CudaInUse();
    std::vector<void*>& streams = consumers_->streams;
    uint64_t capture = 0;
    (void)cuda.capture_id(target_.device_id, target_.stream, &capture);
    // A graph that is being captured can free its own allocations only.
    const bool in_order = capture == 0 || capture == allocated_in_;
    if (streams.empty() && !consumers_->after_all && in_order) {
      (void)cuda.release(target_.device_id, memory, target_.stream);
      return;
    }
    streams.push_back(target_.stream);
    (void)cuda.release_after(target_.device_id, memory, streams.data(),
                             static_cast<int32_t>(streams.size()), consumers_->after_all);
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
  struct Consumers {
    std::mutex mutex;
    std::vector<void*> streams;
    std::vector<std::shared_ptr<void>> owners;
    bool after_all = false;
  };

  CudaTarget target_;
  uint64_t allocated_in_;
  std::shared_ptr<Consumers> consumers_;
};

}  // namespace

std::shared_ptr<void> AllocateCuda(size_t bytes, const CudaTarget& target) {
  DeviceMemoryDeleter deleter(target, CaptureIdCuda(target));
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
  const CudaApi* api = TheCudaLibrary().api;
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

CudaStream::CudaStream(int device_id) : device_id_(device_id) {
  CheckCuda(Cuda().create_stream(device_id, &stream_));
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) (void)CudaInUse().destroy_stream(device_id_, stream_);
}

CudaStream::CudaStream(CudaStream&& other) noexcept
    : device_id_(other.device_id_), stream_(std::exchange(other.stream_, nullptr)) {}

CudaStream& CudaStream::operator=(CudaStream&& other) noexcept {
  std::swap(device_id_, other.device_id_);
  std::swap(stream_, other.stream_);
  return *this;
}

void CudaStream::Wait() const { CheckCuda(Cuda().wait_stream(device_id_, stream_)); }

void CudaStream::WaitUnlessBroken() const noexcept {
  (void)CudaInUse().wait_stream(device_id_, stream_);
}

CudaEvent::CudaEvent(int device_id) : device_id_(device_id) {
  CheckCuda(Cuda().create_event(device_id, &event_));
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) (void)CudaInUse().destroy_event(device_id_, event_);
}

CudaEvent::CudaEvent(CudaEvent&& other) noexcept
    : device_id_(other.device_id_), event_(std::exchange(other.event_, nullptr)) {}

CudaEvent& CudaEvent::operator=(CudaEvent&& other) noexcept {
  std::swap(device_id_, other.device_id_);
  std::swap(event_, other.event_);
  return *this;
}

void CudaEvent::Record(void* stream) { CheckCuda(Cuda().record_event(device_id_, event_, stream)); }

void CudaEvent::Wait() const { CheckCuda(Cuda().wait_event(device_id_, event_)); }

void CudaEvent::WaitUnlessBroken() const noexcept {
  (void)CudaInUse().wait_event(device_id_, event_);
}

void CudaEvent::OrderAfter(void* stream) const {
  CheckCuda(Cuda().order_after_event(device_id_, stream, event_));
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) (void)CudaInUse().release_pinned(device_id_, data_);
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : device_id_(other.device_id_),
      data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(device_id_, other.device_id_);
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

void PinnedBuffer::Reserve(size_t bytes) {
  if (bytes <= capacity_) return;
  const size_t size = Grown(capacity_, bytes);
  capacity_ = 0;
  if (data_ != nullptr) CheckCuda(Cuda().release_pinned(device_id_, std::exchange(data_, nullptr)));
  void* memory = nullptr;
  CheckCuda(Cuda().allocate_pinned(device_id_, size, &memory));
  data_ = static_cast<uint8_t*>(memory);
  capacity_ = size;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) (void)CudaInUse().release(device_id_, data_, nullptr);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : device_id_(other.device_id_),
      data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(device_id_, other.device_id_);
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

void DeviceBuffer::Reserve(size_t bytes, void* stream) {
  if (bytes <= capacity_) return;
  const size_t size = Grown(capacity_, bytes);
  capacity_ = 0;
  if (data_ != nullptr)
    CheckCuda(Cuda().release(device_id_, std::exchange(data_, nullptr), stream));
  void* memory = nullptr;
  CheckCuda(Cuda().allocate(device_id_, size, stream, &memory));
  data_ = static_cast<uint8_t*>(memory);
  capacity_ = size;
}

}  // namespace endcap
