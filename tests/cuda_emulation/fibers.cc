#include "cuda_emulation/fibers.h"

#include <sanitizer/asan_interface.h>

#include <cstring>

#include "block.h"
#include "streams.h"

namespace endcap::emulation {
namespace {

// Neighbouring blocks have fibers of their own, and so have neighbouring streams, so that nothing
// orders what they do.
Block& BlockFor(size_t number) {
  constexpr size_t kStreams = kRacesObserved ? 3 : 1;
  constexpr size_t kBlocks = kRacesObserved ? 2 : 1;
  static auto* blocks = new Block[kStreams][kBlocks];
  return blocks[static_cast<size_t>(RunningStream()) % kStreams][number % kBlocks];
}

// Each host thread that runs a block has its own; so are the variables that kernels share.
unsigned char* DynamicShared() {
  static thread_local uint4 memory[kMaxShared / sizeof(uint4)];
  return reinterpret_cast<unsigned char*>(memory);
}

void RunBlock(Block& block, ThreadView view, size_t shared_bytes, bool reversed,
              const std::function<void()>& kernel) {
  view.dynamic_shared = DynamicShared();
  ASAN_POISON_MEMORY_REGION(view.dynamic_shared, kMaxShared);
  ASAN_UNPOISON_MEMORY_REGION(view.dynamic_shared, shared_bytes);
  std::memset(view.dynamic_shared, 0xCD, shared_bytes);
  const size_t threads = size_t{view.block.x} * view.block.y * view.block.z;
  block.SetViews(threads, view);
  const Observed host(Observed::Caller::kThis);
  if (kRacesObserved) Order({&host}, block.ObservedThreads(threads));
  block.Run(threads, reversed, kernel);
}

}  // namespace

int Barrier(int value) {
  Block& block = RunningBlock();
  block.running().barrier_value = value;
  block.Leave(State::kAtBarrier);
  return block.running().barrier_sum;
}

int Lane() { return RunningBlock().Lane(); }

namespace {

Fiber& WaitForLanes(State state, uint32_t mask, uint64_t value) {
  Block& block = RunningBlock();
  Fiber& fiber = block.running();
  if ((mask >> block.Lane() & 1U) == 0) Die("a lane called a warp function with a mask without it");
  fiber.mask = mask;
  fiber.given = value;
  block.Leave(state);
  return fiber;
}

}  // namespace

Lanes PendingRequest(uint32_t mask, uint64_t value) {
  return WaitForLanes(State::kExchanging, mask, value).received;
}

void CopyLater(void* to, const void* from, size_t bytes, size_t zeros) {
  const auto aligned = [bytes](const void* at) {
    return reinterpret_cast<uintptr_t>(at) % bytes == 0;
  };
  if (bytes != 4 && bytes != 8 && bytes != 16)
    Die("a copy to shared memory is of 4, 8 or 16 bytes");
  if (!aligned(to) || !aligned(from)) Die("a copy to shared memory is not aligned");
  auto* const bytes_to = static_cast<unsigned char*>(to);
  RunningBlock().running().begun.push_back(
      {bytes_to, static_cast<const unsigned char*>(from), bytes, zeros});
}

void CommitCopies() {
  Fiber& fiber = RunningBlock().running();
  fiber.groups.push_back(std::move(fiber.begun));
  fiber.begun.clear();
}

std::vector<Copy> TakeCopies(size_t groups) {
  Fiber& fiber = RunningBlock().running();
  std::vector<Copy> due;
  for (; fiber.groups.size() > groups; fiber.groups.pop_front()) {
    due.insert(due.end(), fiber.groups.front().begin(), fiber.groups.front().end());
  }
  return due;
}

void WarpBarrier(uint32_t mask) { WaitForLanes(State::kAtWarpBarrier, mask, 0); }

void RunGrid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& kernel) {
  static int launches = 0;
  const bool blocks_reversed = ++launches % 2 == 0;
  const size_t blocks = size_t{grid.x} * grid.y * grid.z;
  for (size_t n = 0; n < blocks; ++n) {
    const auto b = static_cast<unsigned>(blocks_reversed ? blocks - 1 - n : n);
    const uint3 index = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    RunOnOwnStack(
        [&] { RunBlock(BlockFor(n), {grid, block, index}, shared_bytes, n % 2 == 1, kernel); });
  }
  if (!kRacesObserved) return;
  const Observed host(Observed::Caller::kThis);
  const size_t threads = size_t{block.x} * block.y * block.z;
  for (size_t n = 0; n < 2; ++n) Order(BlockFor(n).ObservedThreads(threads), {&host});
}

}  // namespace endcap::emulation
