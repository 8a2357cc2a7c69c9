#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace endcap::triton {

// Counts what is under way. Thread-safe.
class InFlight {
 public:
  // Waits until `count` more stay within `limit`, or nothing else is under way, and adds them. Who
  // came first is let in first.
  void Enter(size_t count, size_t limit) {
    std::unique_lock lock(mutex_);
    const uint64_t ticket = tickets_++;
    changed_.wait(lock,
                  [&] { return ticket == entered_ && (count_ == 0 || count_ + count <= limit); });
    ++entered_;
    count_ += count;
    changed_.notify_all();
  }
  void Leave(size_t count) noexcept {
    const std::scoped_lock lock(mutex_);
    count_ -= count;
    // Under the lock: behind it this object may be gone.
    changed_.notify_all();
  }
  void WaitUntilNone() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t count_ = 0;
  uint64_t tickets_ = 0;  // given out
  uint64_t entered_ = 0;  // those let in
};

}  // namespace endcap::triton
