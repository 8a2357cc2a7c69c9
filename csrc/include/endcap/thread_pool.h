#pragma once

#include <functional>
#include <memory>

namespace endcap {

// A fixed number of threads for the items of a batch. Thread-safe: several callers may use one pool
// at the same time. In a child of fork() an inherited pool runs all work on the caller's thread.
class ThreadPool {
 public:
  // thread_count: threads that work on one ParallelFor, the caller's included; 0: the number of
  // CPUs that this process may run on. Throws kInvalidArgument below 0 and above 1024.
  explicit ThreadPool(int thread_count = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int thread_count() const noexcept { return thread_count_; }

  // Calls body(0) .. body(count - 1), each once, and returns when all are done. The order is not
  // defined. body must not throw and must not call ParallelFor on the same pool. Throws kInternal
  // if a StopCheck of the calling thread ends the call: then body(0) .. body(n) are done, for some
  // n, and no others.
  void ParallelFor(int count, const std::function<void(int)>& body);

 private:
  struct State;
  int thread_count_;
  std::unique_ptr<State> state_;
};

// Lets the thread that waits for a batch end it early, for example on Ctrl-C: while a StopCheck
// exists, ParallelFor on the thread that made it calls `stop` between items, and gives up the rest
// of them once it returns true. The one that was made last counts.
class StopCheck {
 public:
  // stop: must not throw; outlives this.
  explicit StopCheck(const std::function<bool()>& stop) noexcept;
  explicit StopCheck(std::function<bool()>&& stop) = delete;
  ~StopCheck();
  StopCheck(const StopCheck&) = delete;
  StopCheck& operator=(const StopCheck&) = delete;

 private:
  const std::function<bool()>* outer_;
};

// Returns the number of CPUs that this process may run on, at least 1.
int AvailableCpuCount() noexcept;

}  // namespace endcap
