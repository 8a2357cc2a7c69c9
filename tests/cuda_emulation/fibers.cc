#include "cuda_emulation/fibers.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "context_switch.h"

namespace endcap::emulation {
namespace {

constexpr size_t kStackBytes = size_t{128} << 10;

enum class State { kReady, kAtBarrier, kExchanging, kEnded };

struct Fiber {
  ThreadView view;
  State state = State::kEnded;
  int barrier_value = 0;
  int barrier_sum = 0;
  uint32_t mask = 0;
  uint64_t given = 0;
  Lanes received{};
  Context context;
  std::unique_ptr<char[]> stack;
};

// The fibers of one host thread, reused from block to block.
class Block {
 public:
  void Run(size_t threads, bool reversed, const std::function<void()>& kernel);
  ThreadView& View(size_t thread) {
    if (fibers_.size() <= thread) fibers_.resize(thread + 1);
    return fibers_[thread].view;
  }
  Fiber& running() { return *running_; }
  const Fiber* first() const { return fibers_.data(); }

  // Leaves the running fiber until the scheduler makes it ready again.
  void Leave(State state) {
    running_->state = state;
    SwitchContext(running_->context, scheduler_);
  }

 private:
  static void Main();
  bool ReleaseBarrier(size_t threads);
  bool ReleaseWarps(size_t threads);
  void Resume(Fiber& fiber);

  std::vector<Fiber> fibers_;
  Fiber* running_ = nullptr;
  Context scheduler_;
  const std::function<void()>* kernel_ = nullptr;
};

thread_local Block block_of_thread;
thread_local const ThreadView* current_view = nullptr;

[[noreturn]] void Die(const char* message) {
  std::fprintf(stderr, "CUDA emulation: %s\n", message);
  std::abort();
}

void Block::Main() {
  Block& block = block_of_thread;
  (*block.kernel_)();
  block.Leave(State::kEnded);
  Die("a thread that had ended was resumed");
}

void Block::Resume(Fiber& fiber) {
  running_ = &fiber;
  current_view = &fiber.view;
  SwitchContext(scheduler_, fiber.context);
}

bool Block::ReleaseBarrier(size_t threads) {
  int sum = 0;
  bool any = false;
  for (size_t i = 0; i < threads; ++i) {
    if (fibers_[i].state == State::kEnded) continue;
    if (fibers_[i].state != State::kAtBarrier) return false;
    sum += fibers_[i].barrier_value;
    any = true;
  }
  for (size_t i = 0; i < threads; ++i) {
    if (fibers_[i].state != State::kAtBarrier) continue;
    fibers_[i].barrier_sum = sum;
    fibers_[i].state = State::kReady;
  }
  return any;
}

bool Block::ReleaseWarps(size_t threads) {
  bool any = false;
  for (size_t i = 0; i < threads; ++i) {
    if (fibers_[i].state != State::kExchanging) continue;
    const uint32_t mask = fibers_[i].mask;
    const size_t warp = i / kWarpSize * kWarpSize;
    Lanes lanes{};
    bool complete = true;
    for (size_t lane = 0; lane < kWarpSize && complete; ++lane) {
      if ((mask >> lane & 1U) == 0) continue;
      if (warp + lane >= threads || fibers_[warp + lane].state == State::kEnded) {
        Die("a warp function waits for a lane that does not exist or has ended");
      }
      const Fiber& other = fibers_[warp + lane];
      complete = other.state == State::kExchanging && other.mask == mask;
      lanes[lane] = other.given;
    }
    if (!complete) continue;
    for (size_t lane = 0; lane < kWarpSize; ++lane) {
      if ((mask >> lane & 1U) == 0) continue;
      fibers_[warp + lane].received = lanes;
      fibers_[warp + lane].state = State::kReady;
    }
    any = true;
  }
  return any;
}

void Block::Run(size_t threads, bool reversed, const std::function<void()>& kernel) {
  kernel_ = &kernel;
  for (size_t i = 0; i < threads; ++i) {
    Fiber& fiber = fibers_[i];
    if (!fiber.stack) fiber.stack = std::make_unique<char[]>(kStackBytes);
    MakeContext(fiber.context, fiber.stack.get(), kStackBytes, &Main);
    fiber.state = State::kReady;
  }
  while (true) {
    for (size_t i = 0; i < threads; ++i) {
      Fiber& fiber = fibers_[reversed ? threads - 1 - i : i];
      if (fiber.state == State::kReady) Resume(fiber);
    }
    if (ReleaseWarps(threads) || ReleaseBarrier(threads)) continue;
    for (size_t i = 0; i < threads; ++i) {
      if (fibers_[i].state != State::kEnded) Die("the threads of a block wait for each other");
    }
    return;
  }
}

}  // namespace

const ThreadView& Current() { return *current_view; }

int Barrier(int value) {
  block_of_thread.running().barrier_value = value;
  block_of_thread.Leave(State::kAtBarrier);
  return block_of_thread.running().barrier_sum;
}

int Lane() {
  return static_cast<int>(&block_of_thread.running() - block_of_thread.first()) % kWarpSize;
}

Lanes Exchange(uint32_t mask, uint64_t value) {
  Fiber& fiber = block_of_thread.running();
  if ((mask >> Lane() & 1U) == 0) Die("a lane called a warp function with a mask without it");
  fiber.mask = mask;
  fiber.given = value;
  block_of_thread.Leave(State::kExchanging);
  return fiber.received;
}

void RunGrid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& kernel) {
  static int launches = 0;
  const bool blocks_reversed = ++launches % 2 == 0;
  const size_t threads = size_t{block.x} * block.y * block.z;
  const size_t blocks = size_t{grid.x} * grid.y * grid.z;
  const std::unique_ptr<uint4[]> shared(new uint4[shared_bytes / sizeof(uint4) + 1]);
  auto* const bytes = reinterpret_cast<unsigned char*>(shared.get());
  for (size_t i = threads; i-- > 0;) {
    const auto x = static_cast<unsigned>(i);
    block_of_thread.View(i).thread_index = {x % block.x, x / block.x % block.y,
                                            x / block.x / block.y};
  }
  for (size_t n = 0; n < blocks; ++n) {
    const auto b = static_cast<unsigned>(blocks_reversed ? blocks - 1 - n : n);
    const uint3 index = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    std::memset(bytes, 0xCD, shared_bytes);
    for (size_t i = 0; i < threads; ++i) {
      ThreadView& view = block_of_thread.View(i);
      view = {grid, block, index, view.thread_index, bytes};
    }
    block_of_thread.Run(threads, n % 2 == 1, kernel);
  }
}

}  // namespace endcap::emulation
