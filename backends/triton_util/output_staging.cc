#include "triton_util/output_staging.h"

#include <algorithm>
#include <cstring>

#include "endcap/cuda.h"

namespace endcap::triton {
namespace {

constexpr size_t kAlignment = 256;  // as AllocateCuda's

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

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
  // Neighbouring parts go to the mirror in one copy.
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

}  // namespace endcap::triton
