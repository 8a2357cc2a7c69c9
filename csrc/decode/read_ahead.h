#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

namespace endcap {

// Lets a second thread decode an image ahead of the thread that uses its rows, in steps, each of
// which is done once and in order. The user does the steps that the second thread, the helper, has
// not begun: the result is the same without a helper, and whenever it comes or goes.
class ReadAhead {
 public:
  ReadAhead() = default;
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The four functions below are for the user.

  // Begins; step(i) does step i, on any of the two threads.
  void Begin(std::function<void(int)> step);
  // Lets the helper do steps below `end`.
  void Allow(int end);
  // Returns when step `i` is done. Throws what it threw, or one before it. A wait so long that the
  // helper must have lost its CPU in the middle of a step gives it no more steps.
  void Require(int i);
  // Returns when the helper is at no step, and will do none. Also for a user that never began.
  void End() noexcept;

  // Whether the user had to wait so long for the helper.
  bool was_late() const noexcept { return late_; }

  // For the helper: does steps until End, or until is_to_leave, which is called before each step
  // and must not throw, returns true.
  void Help(const std::function<bool()>& is_to_leave = [] { return false; }) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;

  // Does the next step. The lock is released meanwhile.
  void DoNext(Lock& lock) noexcept;
  // Says that the state has changed.
  void Notify() noexcept;
  // Waits for a change of the state, read under the lock. Returns false where none has come
  // in time.
  bool WaitForChange(Lock& lock, std::chrono::milliseconds most);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<uint32_t> changes_{0};
  std::function<void(int)> step_;
  int next_ = 0;     // the first step that is not done
  int allowed_ = 0;  // to the helper: those below
  bool busy_ = false;
  bool ended_ = false;
  bool late_ = false;
  std::exception_ptr error_;  // of step next_
};

}  // namespace endcap
