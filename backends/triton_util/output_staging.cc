#include "triton_util/output_staging.h"

#include <algorithm>
#include <cstring>

#include "endcap/cuda.h"

namespace endcap::triton {
namespace {

constexpr size_t kAlignment = 256;  // as AllocateCuda's
// Up to here the time of a copy from the GPU is its start, and a second copy on the host is cheap.
constexpr size_t kMirrorBytes = size_t{1} << 20;

}  // namespace

size_t OutputStaging::Add(size_t bytes, void* to, const MemoryPlace& to_place) {
  const size_t offset = bytes_;
  parts_.push_back({offset, bytes, to, to_place});
  bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return offset;
}

void OutputStaging::Allocate() {
  if (bytes_ == 0) return;
  if (place_.on_gpu()) {
    device_block_ = AllocateCuda(bytes_, workplace_.target());
    data_ = static_cast<std::byte*>(device_block_.get());
    if (UsesMirror()) host_block_.resize(bytes_);
  } else {
    host_block_.resize(bytes_);
    data_ = host_block_.data();
  }
}

bool OutputStaging::UsesMirror() const noexcept {
  return place_.on_gpu() && bytes_ <= kMirrorBytes && parts_.size() > 1 &&
         std::all_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return !part.to_place.on_gpu(); });
}

void OutputStaging::Copy() {
  if (UsesMirror()) {
    CopyCuda(host_block_.data(), data_, bytes_, workplace_.target());
    return;
  }
  for (const Part& part : parts_) {
    if (part.to == nullptr || part.bytes == 0) continue;
    const std::byte* from = data_ + part.offset;
    if (place_.on_gpu()) {
      CopyCuda(part.to, from, part.bytes, workplace_.target());
    } else {
      WriteOutput({from, part.bytes}, part.to, part.to_place, workplace_);
    }
  }
}

void OutputStaging::Finish() noexcept {
  if (!UsesMirror()) return;
  for (const Part& part : parts_) {
    if (part.to == nullptr || part.bytes == 0) continue;
    std::memcpy(part.to, host_block_.data() + part.offset, part.bytes);
  }
}

void WriteOutput(std::span<const std::byte> bytes, void* to, const MemoryPlace& to_place,
                 const Workplace& workplace) {
  if (bytes.empty()) return;
  if (!to_place.on_gpu()) {
    std::memcpy(to, bytes.data(), bytes.size());
    return;
  }
  const CudaTarget target = workplace.CopyTarget(to_place);
  CopyCuda(to, bytes.data(), bytes.size(), target);
  SynchronizeCuda(target);
}

}  // namespace endcap::triton
