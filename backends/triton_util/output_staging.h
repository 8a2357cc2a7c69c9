#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "triton_util/instance.h"
#include "triton_util/memory_place.h"

namespace endcap::triton {

// The results of one request that cannot be written where they are wanted. They lie in one block
// while the core works, and are copied from there.
class OutputStaging {
 public:
  // place: where the core writes.
  OutputStaging(const Workplace& workplace, const MemoryPlace& place) noexcept
      : workplace_(workplace), place_(place) {}

  // Announces a result of `bytes` that goes to `to`, memory of `to_place`; null: nowhere. Returns
  // its offset in the block.
  size_t Add(size_t bytes, void* to, const MemoryPlace& to_place);

  // Reserves the block for all that was announced. Throws kOutOfMemory, kCuda.
  void Allocate();
  std::byte* data() const noexcept { return data_; }

  // From a GPU enqueues the copies behind the core's work, from host memory does them. Throws
  // kCuda.
  void Copy();
  // Completes them when the workplace's stream has been waited for.
  void Finish() noexcept;

 private:
  struct Part {
    size_t offset;
    size_t bytes;
    void* to;
    MemoryPlace to_place;
  };

  // Whether one copy of the block to the host is better than one of each part.
  bool UsesMirror() const noexcept;

  Workplace workplace_;
  MemoryPlace place_;
  std::vector<Part> parts_;
  size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<void> device_block_;
  std::vector<std::byte> host_block_;  // for place_ on the host the block, else its mirror
};

// Writes host memory to where an output is wanted, and waits. Throws kCuda.
void WriteOutput(std::span<const std::byte> bytes, void* to, const MemoryPlace& to_place,
                 const Workplace& workplace);

}  // namespace endcap::triton
