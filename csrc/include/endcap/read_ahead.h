#pragma once

#include <condition_variable>
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

  // Of the user.

  // Begins; step(i) does step i, on any of the two threads.
  void Begin(std::function<void(int)> step);
  // Lets the helper do steps below `end`.
  void Allow(int end);
  // Returns when step `i` is done. Throws what it threw, or one before it. Where that takes as long
  // as if the helper had lost its CPU in the middle of a step, it is the helper's last.
  void Require(int i);
  // Returns when the helper is at no step, and will do none. Also for a user that never began.
  void End() noexcept;

  // Whether the user had to wait so long for the helper.
  bool was_late() const noexcept { return late_; }

  // Of the helper: does steps until End.
  void Help() noexcept;

 private:
  bool WaitForStep(std::unique_lock<std::mutex>& lock);
  // Does the next step. The lock is released meanwhile.
  void DoNext(std::unique_lock<std::mutex>& lock) noexcept;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void(int)> step_;
  int next_ = 0;     // the first step that is not done
  int allowed_ = 0;  // to the helper: those below
  bool busy_ = false;
  bool ended_ = false;
  bool late_ = false;
  std::exception_ptr error_;  // of step next_
};

}  // namespace endcap
