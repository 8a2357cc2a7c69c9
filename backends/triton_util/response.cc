#include "triton_util/response.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "endcap/cuda.h"
#include "endcap/error.h"

namespace endcap::triton {
namespace {

constexpr size_t kAlignment = 256;  // that of AllocateCuda

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

TRITONBACKEND_Response* ResponseSink::Current() {
  if (response_ == nullptr) {
    TRITONBACKEND_Response* raw = nullptr;
    Check(TRITONBACKEND_ResponseNew(&raw, request_));
    response_.reset(raw);
  }
  return response_.get();
}

OutputMemory ResponseSink::AddOutput(std::string_view name, TRITONSERVER_DataType data_type,
                                     std::span<const int64_t> shape, size_t size_bytes,
                                     const MemoryPlace& preferred) {
  const std::string text(name);
  TRITONBACKEND_Output* output = nullptr;
  Check(TRITONBACKEND_ResponseOutput(Current(), &output, text.c_str(), data_type, shape.data(),
                                     static_cast<uint32_t>(shape.size())));
  void* buffer = nullptr;
  TRITONSERVER_MemoryType memory = preferred.type();
  int64_t memory_id = preferred.device_id;
  Check(TRITONBACKEND_OutputBuffer(output, &buffer, size_bytes, &memory, &memory_id));
  if (!IsAligned(buffer, data_type)) {
    throw Error(ErrorCode::kInvalidArgument,
                "output '" + text +
                    "' was given memory at an address that is not a multiple of its element size: "
                    "give it an offset in the shared memory region that is a multiple of 4");
  }
  return {buffer, MemoryPlace::FromTriton(memory, memory_id)};
}

OutputMemory ResponseSink::AddOutput(const TensorSpec& spec, int64_t item_count, bool batched,
                                     const MemoryPlace& preferred) {
  std::vector<int64_t> shape(spec.shape.begin(), spec.shape.begin() + spec.rank);
  if (batched) shape.insert(shape.begin(), item_count);
  return AddOutput(spec.name, ToTriton(spec.dtype), shape, CountBytes(spec, item_count), preferred);
}

void ResponseSink::Send() {
  TRITONBACKEND_Response* response = Current();
  // The call takes ownership of the response, also when it fails.
  sent_ = true;
  static_cast<void>(response_.release());
  Check(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, nullptr));
  succeeded_ = true;
}

void ResponseSink::Fail(const Failure& failure) noexcept {
  if (sent_) return;
  sent_ = true;
  LogIfFailed(Guard([&] {
    const ErrorHandle error(TRITONSERVER_ErrorNew(failure.code, Describe(failure).c_str()));
    TRITONBACKEND_Response* response = Current();
    static_cast<void>(response_.release());
    Check(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error.get()));
  }));
}

size_t OutputStaging::Add(size_t bytes, void* to, const MemoryPlace& to_place) {
  const size_t offset = bytes_;
  parts_.push_back({offset, bytes, to, to_place});
  bytes_ += RoundUp(bytes);
  return offset;
}

void OutputStaging::Allocate() {
  if (bytes_ == 0) return;
  if (!place_.on_gpu()) {
    host_block_.resize(bytes_);
    data_ = host_block_.data();
    return;
  }
  device_block_ = AllocateCuda(bytes_, execution_context_.target());
  data_ = static_cast<std::byte*>(device_block_.get());
  if (std::ranges::any_of(parts_, [this](const Part& part) { return IsMirrored(part); })) {
    mirror_ = AllocatePinnedCuda(bytes_, place_.device_id);
  }
}

bool OutputStaging::IsMirrored(const Part& part) const noexcept {
  return place_.on_gpu() && part.to != nullptr && part.bytes != 0 && !part.to_place.on_gpu() &&
         !part.to_place.pinned;
}

void OutputStaging::CopyToMirror(size_t begin, size_t end) {
  CopyCuda(mirror_.get() + begin, data_ + begin, end - begin, execution_context_.target());
}

void OutputStaging::Copy() {
  // Adjacent parts are copied to the mirror in one copy.
  size_t begin = 0;
  size_t end = 0;
  for (const Part& part : parts_) {
    if (part.to == nullptr || part.bytes == 0) continue;
    const std::byte* from = data_ + part.offset;
    if (IsMirrored(part)) {
      if (part.offset != RoundUp(end) && end != begin) {
        CopyToMirror(begin, end);
        begin = end = part.offset;
      }
      if (begin == end) begin = part.offset;
      end = part.offset + part.bytes;
    } else if (place_.on_gpu()) {
      CopyCuda(part.to, from, part.bytes, execution_context_.target());
    } else {
      WriteOutput({from, part.bytes}, part.to, part.to_place, execution_context_);
    }
  }
  if (begin != end) CopyToMirror(begin, end);
}

void OutputStaging::Finish() noexcept {
  for (const Part& part : parts_) {
    if (IsMirrored(part)) std::memcpy(part.to, mirror_.get() + part.offset, part.bytes);
  }
}

void WriteOutput(std::span<const std::byte> bytes, void* to, const MemoryPlace& to_place,
                 const ExecutionContext& execution_context) {
  if (bytes.empty()) return;
  if (!to_place.on_gpu()) {
    std::memcpy(to, bytes.data(), bytes.size());
    return;
  }
  const CudaTarget target = execution_context.CopyTarget(to_place);
  CopyCuda(to, bytes.data(), bytes.size(), target);
  SynchronizeCuda(target);
}

void RequestOutputs::Add(const TensorSpec& spec, int64_t item_count, const Placement& placement,
                         StageCounters& counters) {
  Output& output = outputs_.emplace_back();
  output.spec = spec;
  output.place = placement.core;
  const size_t bytes = CountBytes(spec, item_count);
  if (!request_.WantsOutput(spec.name)) {
    output.staged = placement.even_if_unwanted;
    if (output.staged) output.offset = StagingAt(placement.core).Add(bytes, nullptr, {});
    return;
  }
  // Copies from a GPU to pinned memory are asynchronous and direct.
  const bool to_host = placement.core.on_gpu() && !placement.preferred.on_gpu();
  const MemoryPlace promised =
      request_.OutputPlace(spec.name, bytes, to_host ? MemoryPlace::Pinned() : placement.preferred);
  const OutputMemory memory = sink_->AddOutput(spec, item_count, batched_, promised);
  if (promised.on_gpu() && memory.place != promised) counters.CountSpill();
  if (memory.place == placement.core) {
    output.in_place = memory.data;
    return;
  }
  output.staged = true;
  output.offset = StagingAt(placement.core).Add(bytes, memory.data, memory.place);
}

void RequestOutputs::Allocate() {
  host_.Allocate();
  device_.Allocate();
}

OutputItems RequestOutputs::operator[](size_t output) const noexcept {
  const Output& entry = outputs_[output];
  void* data = entry.in_place;
  if (entry.staged) data = (entry.place.on_gpu() ? device_ : host_).data() + entry.offset;
  return OutputItemsAt(entry.spec, data, entry.place);
}

void RequestOutputs::Copy() {
  host_.Copy();
  device_.Copy();
}

void RequestOutputs::Finish() noexcept {
  host_.Finish();
  device_.Finish();
}

}  // namespace endcap::triton
