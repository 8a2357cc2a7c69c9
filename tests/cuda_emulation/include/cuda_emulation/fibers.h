#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cuda_emulation/vector_types.h"

// One block of threads on the host: each thread of the block is a fiber, and the block ends when
// all of them have. A thread runs until it meets a barrier or an pending within its warp.

namespace endcap::emulation {

inline constexpr int kWarpSize = 32;
inline constexpr int kMaxThreads = 1024;
inline constexpr size_t kMaxShared = size_t{227} << 10;

// What a running thread sees of itself.
struct ThreadView {
  dim3 grid{};
  dim3 block{};
  uint3 block_index{};
  uint3 thread_index{};
  unsigned char* dynamic_shared = nullptr;
};

// The fiber that runs now; only inside a kernel.
const ThreadView& Current();

// __syncthreads: waits for every thread of the block that has not ended; the sum of what they gave.
int Barrier(int value);

using Lanes = std::array<uint64_t, kWarpSize>;

// Waits for the lanes of `mask`, which must all come, and returns what each of them gave (0 for
// others). Ends the process with a message where a lane of the mask has ended.
Lanes PendingRequest(uint32_t mask, uint64_t value);

// __syncwarp: waits for the lanes of `mask`, as PendingRequest does.
void WarpBarrier(uint32_t mask);

// A copy to shared memory that a thread has begun; the last `zeros` bytes are not read but 0.
struct Copy {
  unsigned char* to;
  const unsigned char* from;
  size_t bytes;
  size_t zeros;
};

// Copies of the running thread: CopyLater notes one, CommitCopies makes a group of those noted
// since the last group, TakeCopies gives those of all groups but the newest `groups`, which the
// caller has to do. Ends the process where an address is not aligned to the size.
void CopyLater(void* to, const void* from, size_t bytes, size_t zeros);
void CommitCopies();
std::vector<Copy> TakeCopies(size_t groups);

// The lane of the running thread.
int Lane();

// Runs `kernel` once for every thread of a grid, block by block. Odd blocks run their threads in
// reverse order, odd launches their blocks, so that what depends on an order differs between them.
// Dynamic shared memory is filled with a pattern before each block.
void RunGrid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& kernel);

}  // namespace endcap::emulation
