#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "context_switch.h"
#include "cuda_emulation/fibers.h"
#include "observed.h"

namespace endcap::emulation {

enum class State { kReady, kAtBarrier, kAtWarpBarrier, kExchanging, kEnded };

// One thread of a block.
struct Fiber {
  ThreadView view;
  State state = State::kEnded;
  int barrier_value = 0;
  int barrier_sum = 0;
  uint32_t mask = 0;
  uint64_t given = 0;
  Lanes received{};
  std::vector<Copy> begun;
  std::deque<std::vector<Copy>> groups;
  Context context;
  std::unique_ptr<char[]> stack;
  Observed observed;
};

// The fibers of a block, which serve one block after another.
class Block {
 public:
  void Run(size_t threads, bool reversed, const std::function<void()>& kernel);

  // Of the first `threads` fibers.
  void SetViews(size_t threads, const ThreadView& view);
  std::vector<const Observed*> ObservedThreads(size_t threads) const;

  Fiber& running() { return *running_; }
  int Lane() const { return static_cast<int>(running_ - fibers_.data()) % kWarpSize; }

  // Leaves the running fiber until the scheduler makes it ready again.
  void Leave(State state);

 private:
  static void Main();
  bool ReleaseBarrier(size_t threads);
  bool ReleaseWarps(size_t threads);
  bool ReleaseLanes(size_t fiber, size_t threads);
  void Resume(Fiber& fiber);

  std::vector<Fiber> fibers_;
  Fiber* running_ = nullptr;
  Context scheduler_;
  const Observed* scheduler_observed_ = nullptr;
  const std::function<void()>* kernel_ = nullptr;
};

// The block that this host thread runs.
Block& RunningBlock();

// Ends the process.
[[noreturn]] void Die(const char* message);

}  // namespace endcap::emulation
