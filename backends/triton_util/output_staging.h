#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "triton_util/instance.h"
#include "triton_util/memory_place.h"

namespace endcap::triton {

// The results of one request that cannot be written where they are wanted. They are in one block
// while the core works, and are copied from there. From a GPU all copies are asynchronous: those to
// memory that is not pinned go through pinned memory, so that one wait is enough for all.
class OutputStaging {
 public:
  // place: where the core writes.
  OutputStaging(const ExecutionContext& execution_context, const MemoryPlace& place) noexcept
      : execution_context_(execution_context), place_(place) {}

  // Announces a result of `bytes` that goes to `to`, memory of `to_place`; null: nowhere. Returns
  // its offset in the block.
  size_t Add(size_t bytes, void* to, const MemoryPlace& to_place);

  // Reserves the block for all that was announced. Throws kOutOfMemory, kCuda.
  void Allocate();
  std::byte* data() const noexcept { return data_; }

  // From a GPU enqueues the copies behind the core's work, from host memory does them. Throws
  // kCuda.
  void Copy();
  // Completes them after the wait for the instance's stream.
  void Finish() noexcept;

 private:
  struct Part {
    size_t offset;
    size_t bytes;
    void* to;
    MemoryPlace to_place;
  };

  // Whether the part goes from a GPU to host memory that is not pinned.
  bool IsMirrored(const Part& part) const noexcept;
  void CopyToMirror(size_t begin, size_t end);

  ExecutionContext execution_context_;
  MemoryPlace place_;
  std::vector<Part> parts_;
  size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<void> device_block_;
  std::vector<std::byte> host_block_;  // the block, for place_ on the host
  std::shared_ptr<uint8_t> mirror_;    // of the device's block, for mirrored parts
};

// Writes host memory to where an output is wanted, and waits. Throws kCuda.
void WriteOutput(std::span<const std::byte> bytes, void* to, const MemoryPlace& to_place,
                 const ExecutionContext& execution_context);

}  // namespace endcap::triton
