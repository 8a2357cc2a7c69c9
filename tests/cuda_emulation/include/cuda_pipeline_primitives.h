#pragma once

#include <cstddef>

#include "cuda_emulation/fibers.h"

// Stands in for CUDA's header of that name: copies to shared memory. Those of even blocks are done
// when they are waited for and not before, so that a missing wait shows; those of odd blocks at
// once, so that what is overwritten too early shows.

inline void __pipeline_wait_prior(size_t groups);

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
  endcap::emulation::CopyLater(to, from, bytes, zeros);
  const auto& block = endcap::emulation::Current().block_index;
  if ((block.x + block.y + block.z) % 2 == 0) return;
  endcap::emulation::CommitCopies();
  __pipeline_wait_prior(0);
}
inline void __pipeline_commit() { endcap::emulation::CommitCopies(); }
// Done here, where a sanitizer sees whose they are.
inline void __pipeline_wait_prior(size_t groups) {
  for (const auto& copy : endcap::emulation::TakeCopies(groups)) {
    for (size_t i = 0; i < copy.bytes; ++i) {
      copy.to[i] = i + copy.zeros < copy.bytes ? copy.from[i] : 0;
    }
  }
}
