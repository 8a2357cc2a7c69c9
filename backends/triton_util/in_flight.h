#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace endcap::triton {

// Counts what is under way. Thread-safe.
class InFlight {
 public:
  // Waits until `count` more stay within `limit`, or nothing else is under way, and adds them.
  void Enter(size_t count, size_t limit) {
    std::unique_lock lock(mutex_);
    left_.wait(lock, [&] { return count_ == 0 || count_ + count <= limit; });
    count_ += count;
  }
  void Leave(size_t count) noexcept {
    const std::scoped_lock lock(mutex_);
    count_ -= count;
    // Under the lock: behind it this object may be gone.
    left_.notify_all();
  }
  void WaitUntilNone() {
    std::unique_lock lock(mutex_);
    left_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable left_;
  size_t count_ = 0;
};

}  // namespace endcap::triton
