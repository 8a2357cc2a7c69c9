#include "triton_util/input_tensor.h"

#include <algorithm>

#include "endcap/error.h"
#include "triton_util/data_type.h"
#include "triton_util/error_guard.h"

namespace endcap::triton {
namespace {

constexpr size_t kLengthPrefixBytes = 4;  // little-endian, before each element of a BYTES tensor

[[noreturn]] void Refuse(const std::string& input, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, "input '" + input + "' " + what);
}

Bytes HostBuffer(TRITONBACKEND_Input* input, uint32_t index, const std::string& name) {
  const void* data = nullptr;
  uint64_t size = 0;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
  int64_t memory_id = 0;
  Check(TRITONBACKEND_InputBuffer(input, index, &data, &size, &memory, &memory_id));
  if (memory == TRITONSERVER_MEMORY_GPU && size > 0) {
    throw Error(ErrorCode::kUnsupported, "input '" + name +
                                             "' lies in GPU memory, and this build of the backend "
                                             "reads host memory only");
  }
  return {static_cast<const std::byte*>(data), static_cast<size_t>(size)};
}

std::vector<std::byte> Gather(TRITONBACKEND_Input* input, uint32_t buffer_count,
                              uint64_t total_bytes, const std::string& name) {
  std::vector<std::byte> bytes;
  bytes.reserve(total_bytes);
  for (uint32_t i = 0; i < buffer_count; ++i) {
    const Bytes part = HostBuffer(input, i, name);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

size_t ReadLength(Bytes prefix) noexcept {
  size_t length = 0;
  for (size_t i = 0; i < kLengthPrefixBytes; ++i) {
    length |= std::to_integer<size_t>(prefix[i]) << (8 * i);
  }
  return length;
}

}  // namespace

InputTensor::InputTensor(TRITONBACKEND_Input* input, bool batched) {
  const char* name = nullptr;
  const int64_t* shape = nullptr;
  uint32_t rank = 0;
  uint64_t size_bytes = 0;
  uint32_t buffer_count = 0;
  Check(TRITONBACKEND_InputProperties(input, &name, &data_type_, &shape, &rank, &size_bytes,
                                      &buffer_count));
  name_ = name;
  item_shape_.assign(shape, shape + rank);
  if (batched) {
    if (rank == 0) Refuse(name_, "has no batch dimension");
    item_count_ = item_shape_.front();
    item_shape_.erase(item_shape_.begin());
  }
  if (item_count_ < 1) Refuse(name_, "holds no item: its batch dimension is 0");
  if (buffer_count == 1) {
    bytes_ = HostBuffer(input, 0, name_);
    if (IsAligned(bytes_.data(), data_type_)) return;
  }
  gathered_ = Gather(input, buffer_count, size_bytes, name_);
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
  if (view.rank > ConstTensorView::kMaxRank) Refuse(name_, "has more than 4 dimensions an item");
  std::copy(item_shape_.begin(), item_shape_.end(), view.shape.begin());
  view.data = bytes_.data();
  const size_t needed = static_cast<size_t>(ElementCount()) * SizeOf(view.dtype);
  if (bytes_.size() != needed) {
    Refuse(name_, "has " + std::to_string(bytes_.size()) +
                      " bytes where its shape and type ask for " + std::to_string(needed));
  }
  return InputItems(view);
}

std::vector<Bytes> InputTensor::Strings() const {
  const auto count = static_cast<size_t>(ElementCount());
  std::vector<Bytes> elements;
  Bytes rest = bytes_;
  while (!rest.empty()) {
    if (rest.size() < kLengthPrefixBytes) Refuse(name_, "ends inside a 4-byte length");
    const size_t length = ReadLength(rest);
    rest = rest.subspan(kLengthPrefixBytes);
    if (length > rest.size()) {
      Refuse(name_, "has an element of " + std::to_string(length) + " bytes where " +
                        std::to_string(rest.size()) + " are left");
    }
    if (elements.size() == count) break;
    elements.push_back(rest.first(length));
    rest = rest.subspan(length);
  }
  if (elements.size() != count || !rest.empty()) {
    Refuse(name_, "does not hold the " + std::to_string(count) + " elements of its shape");
  }
  return elements;
}

std::vector<Bytes> InputTensor::Blobs() const {
  const auto count = static_cast<size_t>(item_count_);
  const size_t length = bytes_.size() / count;
  if (length * count != bytes_.size()) {
    Refuse(name_, "has " + std::to_string(bytes_.size()) + " bytes, which are not " +
                      std::to_string(count) + " items of one length");
  }
  std::vector<Bytes> blobs;
  blobs.reserve(count);
  for (size_t i = 0; i < count; ++i) blobs.push_back(bytes_.subspan(i * length, length));
  return blobs;
}

}  // namespace endcap::triton
