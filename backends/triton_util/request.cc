#include "triton_util/request.h"

#include <algorithm>
#include <utility>

#include "endcap/cuda.h"
#include "endcap/error.h"
#include "triton_util/errors.h"

namespace endcap::triton {
namespace {

[[noreturn]] void RejectInput(const std::string& input, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, "input '" + input + "' " + what);
}

struct Buffer {
  Bytes bytes;
  MemoryPlace place;
};

Buffer GetBuffer(TRITONBACKEND_Input* input, uint32_t index, const MemoryPlace& preferred) {
  const void* data = nullptr;
  uint64_t size = 0;
  TRITONSERVER_MemoryType memory = preferred.type();
  int64_t memory_id = preferred.device_id;
  Check(TRITONBACKEND_InputBuffer(input, index, &data, &size, &memory, &memory_id));
  const MemoryPlace place = size == 0 ? MemoryPlace{} : MemoryPlace::FromTriton(memory, memory_id);
  return {{static_cast<const std::byte*>(data), static_cast<size_t>(size)}, place};
}

// Copies into host memory; synchronises if the buffer is on a GPU.
void CopyToHost(std::byte* to, const Buffer& from, const ExecutionContext& execution_context) {
  if (!from.place.on_gpu()) {
    std::copy(from.bytes.begin(), from.bytes.end(), to);
    return;
  }
  const CudaTarget target = execution_context.CopyTarget(from.place);
  CopyCuda(to, from.bytes.data(), from.bytes.size(), target);
  SynchronizeCuda(target);
}

std::vector<std::byte> Gather(std::span<const Buffer> buffers,
                              const ExecutionContext& execution_context) {
  size_t total = 0;
  for (const Buffer& buffer : buffers) total += buffer.bytes.size();
  std::vector<std::byte> bytes(total);
  std::byte* end = bytes.data();
  for (const Buffer& buffer : buffers) {
    CopyToHost(end, buffer, execution_context);
    end += buffer.bytes.size();
  }
  return bytes;
}

}  // namespace

InputTensor::InputTensor(TRITONBACKEND_Input* input, const InputReading& reading) {
  const char* name = nullptr;
  const int64_t* shape = nullptr;
  uint32_t rank = 0;
  uint64_t size_bytes = 0;
  uint32_t buffer_count = 0;
  Check(TRITONBACKEND_InputProperties(input, &name, &data_type_, &shape, &rank, &size_bytes,
                                      &buffer_count));
  name_ = name;
  item_shape_.assign(shape, shape + rank);
  if (reading.batched) {
    if (rank == 0) RejectInput(name_, "has no batch dimension");
    item_count_ = item_shape_.front();
    item_shape_.erase(item_shape_.begin());
  }
  if (item_count_ < 1) RejectInput(name_, "holds no item: its batch dimension is 0");
  const MemoryPlace preferred =
      reading.gpu_in_place ? reading.execution_context.memory() : MemoryPlace{};
  std::vector<Buffer> buffers;
  buffers.reserve(buffer_count);
  for (uint32_t i = 0; i < buffer_count; ++i) buffers.push_back(GetBuffer(input, i, preferred));
  if (buffers.size() == 1) {
    const Buffer& only = buffers.front();
    const bool readable = !only.place.on_gpu() || only.place == preferred;
    if (readable && IsAligned(only.bytes.data(), data_type_)) {
      bytes_ = only.bytes;
      place_ = only.place;
      return;
    }
  }
  gathered_ = Gather(buffers, reading.execution_context);
  bytes_ = gathered_;
}

int64_t InputTensor::ElementCount() const {
  int64_t count = item_count_;
  for (const int64_t dim : item_shape_) count *= dim;
  return count;
}

InputItems InputTensor::Items() const {
  ConstTensorView view;
  view.dtype = FromTriton(data_type_, name_);
  view.rank = static_cast<int>(item_shape_.size());
  if (view.rank > ConstTensorView::kMaxRank)
    RejectInput(name_, "has more than 4 dimensions an item");
  std::copy(item_shape_.begin(), item_shape_.end(), view.shape.begin());
  view.data = bytes_.data();
  view.device = place_.device;
  view.device_id = place_.device_id;
  const size_t needed = static_cast<size_t>(ElementCount()) * GetElementSize(view.dtype);
  if (bytes_.size() != needed) {
    RejectInput(name_, "has " + std::to_string(bytes_.size()) +
                           " bytes where its shape and type ask for " + std::to_string(needed));
  }
  return InputItems(view);
}

std::vector<Bytes> InputTensor::Strings() const {
  const auto count = static_cast<size_t>(ElementCount());
  std::vector<Bytes> elements;
  Bytes rest = bytes_;
  while (!rest.empty() && elements.size() < count) {
    if (rest.size() < kStringLengthBytes) RejectInput(name_, "ends inside a 4-byte length");
    const size_t length = ReadStringLength(rest);
    rest = rest.subspan(kStringLengthBytes);
    if (length > rest.size()) {
      RejectInput(name_, "has an element of " + std::to_string(length) + " bytes where " +
                             std::to_string(rest.size()) + " are left");
    }
    elements.push_back(rest.first(length));
    rest = rest.subspan(length);
  }
  if (elements.size() != count || !rest.empty()) {
    RejectInput(name_, "does not hold the " + std::to_string(count) + " elements of its shape");
  }
  return elements;
}

std::vector<Bytes> InputTensor::Blobs() const {
  const auto count = static_cast<size_t>(item_count_);
  const size_t length = bytes_.size() / count;
  if (length * count != bytes_.size()) {
    RejectInput(name_, "has " + std::to_string(bytes_.size()) + " bytes, which are not " +
                           std::to_string(count) + " items of one length");
  }
  std::vector<Bytes> blobs;
  blobs.reserve(count);
  for (size_t i = 0; i < count; ++i) blobs.push_back(bytes_.subspan(i * length, length));
  return blobs;
}

std::string Request::Id() const {
  const char* id = nullptr;
  Check(TRITONBACKEND_RequestId(request_, &id));
  return id == nullptr ? "" : id;
}

std::variant<uint64_t, std::string> Request::CorrelationId() const {
  uint64_t number = 0;
  const ErrorHandle not_a_number(TRITONBACKEND_RequestCorrelationId(request_, &number));
  if (not_a_number == nullptr) return number;
  const char* text = nullptr;
  Check(TRITONBACKEND_RequestCorrelationIdString(request_, &text));
  return std::string(text);
}

uint32_t Request::Flags() const {
  uint32_t flags = 0;
  Check(TRITONBACKEND_RequestFlags(request_, &flags));
  return flags;
}

bool Request::IsCancelled() const {
  bool cancelled = false;
  Check(TRITONBACKEND_RequestIsCancelled(request_, &cancelled));
  return cancelled;
}

uint64_t Request::TimeoutUs() const {
  uint64_t timeout_us = 0;
  Check(TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request_, &timeout_us));
  return timeout_us;
}

bool Request::WantsOutput(std::string_view name) const {
  uint32_t count = 0;
  Check(TRITONBACKEND_RequestOutputCount(request_, &count));
  for (uint32_t i = 0; i < count; ++i) {
    const char* wanted = nullptr;
    Check(TRITONBACKEND_RequestOutputName(request_, i, &wanted));
    if (name == wanted) return true;
  }
  return false;
}

std::string Request::Label() const {
  const std::string id = Id();
  std::string label = id.empty() ? "request without id" : "request '" + ClipText(id) + "'";
  const auto correlation = CorrelationId();
  if (const auto* text = std::get_if<std::string>(&correlation)) {
    label += ", correlation id '" + ClipText(*text) + "'";
  } else if (const uint64_t number = std::get<uint64_t>(correlation); number != 0) {
    label += ", correlation id " + std::to_string(number);
  }
  return label;
}

MemoryPlace Request::OutputPlace(std::string_view name, size_t size_bytes,
                                 const MemoryPlace& preferred) const {
  const std::string text(name);
  TRITONSERVER_MemoryType memory = preferred.type();
  int64_t memory_id = preferred.device_id;
  const ErrorHandle unknown(TRITONBACKEND_RequestOutputBufferProperties(
      request_, text.c_str(), &size_bytes, &memory, &memory_id));
  return unknown == nullptr ? MemoryPlace::FromTriton(memory, memory_id) : preferred;
}

std::optional<InputTensor> Request::FindInput(std::string_view name,
                                              const InputReading& reading) const {
  uint32_t count = 0;
  Check(TRITONBACKEND_RequestInputCount(request_, &count));
  for (uint32_t i = 0; i < count; ++i) {
    TRITONBACKEND_Input* input = nullptr;
    Check(TRITONBACKEND_RequestInputByIndex(request_, i, &input));
    const char* given = nullptr;
    Check(
        TRITONBACKEND_InputProperties(input, &given, nullptr, nullptr, nullptr, nullptr, nullptr));
    if (name == given) return InputTensor(input, reading);
  }
  return std::nullopt;
}

InputTensor Request::GetInput(std::string_view name, const InputReading& reading) const {
  std::optional<InputTensor> input = FindInput(name, reading);
  if (!input.has_value()) {
    throw Error(ErrorCode::kInvalidArgument,
                "input '" + std::string(name) + "' is missing in the request");
  }
  return std::move(*input);
}

}  // namespace endcap::triton
