#include "block.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#if defined(ENDCAP_CUDA_RACES)
// Emulated threads outlive the tests, and one of these waits for a signal.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "report_thread_leaks=0:handle_segv=0:atexit_sleep_ms=0";
}
#endif

namespace endcap::emulation {
namespace {

constexpr size_t kStackBytes = size_t{128} << 10;

thread_local Block* running_block = nullptr;
thread_local const ThreadView* current_view = nullptr;

// What the threads did before a barrier is known to all of them after it.
void Meet(const std::vector<const Observed*>& threads) { Order(threads, threads); }

}  // namespace

const ThreadView& Current() { return *current_view; }

Block& RunningBlock() { return *running_block; }

void Die(const char* message) {
  std::fprintf(stderr, "CUDA emulation: %s\n", message);
  std::abort();
}

void Block::Main() {
  Block& block = RunningBlock();
  (*block.kernel_)();
  block.Leave(State::kEnded);
  Die("a thread that had ended was resumed");
}

void Block::Leave(State state) {
  running_->state = state;
  scheduler_observed_->Enter();
  SwitchContext(running_->context, scheduler_);
}

void Block::Resume(Fiber& fiber) {
  running_ = &fiber;
  current_view = &fiber.view;
  fiber.observed.Enter();
  SwitchContext(scheduler_, fiber.context);
}

bool Block::ReleaseBarrier(size_t threads) {
  int sum = 0;
  std::vector<const Observed*> met;
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
    if (kRacesObserved) met.push_back(&fibers_[i].observed);
  }
  Meet(met);
  return any;
}

// Whether the lanes that fiber `i` waits for all wait with it.
bool Block::ReleaseLanes(size_t i, size_t threads) {
  const State state = fibers_[i].state;
  const uint32_t mask = fibers_[i].mask;
  const size_t warp = i / kWarpSize * kWarpSize;
  Lanes lanes{};
  for (size_t lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    if (warp + lane >= threads || fibers_[warp + lane].state == State::kEnded) {
      Die("a warp function waits for a lane that does not exist or has ended");
    }
    const Fiber& other = fibers_[warp + lane];
    if (other.state != state || other.mask != mask) return false;
    lanes[lane] = other.given;
  }
  std::vector<const Observed*> met;
  for (size_t lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    fibers_[warp + lane].received = lanes;
    fibers_[warp + lane].state = State::kReady;
    if (kRacesObserved) met.push_back(&fibers_[warp + lane].observed);
  }
  // Shuffles and votes pending their values and say nothing about memory.
  if (state == State::kAtWarpBarrier) Meet(met);
  return true;
}

bool Block::ReleaseWarps(size_t threads) {
  bool any = false;
  for (size_t i = 0; i < threads; ++i) {
    const State state = fibers_[i].state;
    if (state != State::kExchanging && state != State::kAtWarpBarrier) continue;
    any = ReleaseLanes(i, threads) || any;
  }
  return any;
}

void Block::SetViews(size_t threads, const ThreadView& view) {
  if (fibers_.size() < threads) fibers_.resize(threads);
  uint3 index{};
  for (size_t i = 0; i < threads; ++i) {
    fibers_[i].view = view;
    fibers_[i].view.thread_index = index;
    if (++index.x < view.block.x) continue;
    index.x = 0;
    if (++index.y < view.block.y) continue;
    index.y = 0;
    ++index.z;
  }
}

std::vector<const Observed*> Block::ObservedThreads(size_t threads) const {
  std::vector<const Observed*> observed;
  const size_t count = std::min(threads, fibers_.size());
  for (size_t i = 0; i < count; ++i) observed.push_back(&fibers_[i].observed);
  return observed;
}

void Block::Run(size_t threads, bool reversed, const std::function<void()>& kernel) {
  const Observed scheduler(Observed::Caller::kThis);
  scheduler_observed_ = &scheduler;
  running_block = this;
  kernel_ = &kernel;
  for (size_t i = 0; i < threads; ++i) {
    Fiber& fiber = fibers_[i];
    if (!fiber.stack) fiber.stack = std::make_unique<char[]>(kStackBytes);
    MakeContext(fiber.context, fiber.stack.get(), kStackBytes, &Main);
    fiber.state = State::kReady;
    fiber.begun.clear();
    fiber.groups.clear();
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

}  // namespace endcap::emulation
