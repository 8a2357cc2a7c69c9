#include "endcap/read_ahead.h"

#include <chrono>
#include <utility>

namespace endcap {

void ReadAhead::Begin(std::function<void(int)> step) {
  const std::scoped_lock lock(mutex_);
  step_ = std::move(step);
  next_ = 0;
  allowed_ = 0;
  error_ = nullptr;
}

void ReadAhead::Allow(int end) {
  {
    const std::scoped_lock lock(mutex_);
    if (end <= allowed_) return;
    allowed_ = end;
  }
  changed_.notify_all();
}

void ReadAhead::Require(int i) {
  std::unique_lock lock(mutex_);
  while (next_ <= i) {
    if (busy_) {
      if (WaitForStep(lock)) continue;
      late_ = true;
      ended_ = true;
      changed_.wait(lock, [this] { return !busy_; });
    } else if (error_ != nullptr) {
      std::rethrow_exception(error_);
    } else {
      DoNext(lock);
    }
  }
}

// Returns whether the step of the helper has ended in time.
bool ReadAhead::WaitForStep(std::unique_lock<std::mutex>& lock) {
  // Several times as long as a step takes, and less than the turn of another process.
  constexpr std::chrono::milliseconds kLongest(1);
  return changed_.wait_for(lock, kLongest, [this] { return !busy_; });
}

void ReadAhead::End() noexcept {
  std::unique_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !busy_; });
}

void ReadAhead::Help() noexcept {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (!busy_ && next_ < allowed_ && error_ == nullptr) {
      DoNext(lock);
    } else {
      changed_.wait(lock);
    }
  }
}

void ReadAhead::DoNext(std::unique_lock<std::mutex>& lock) noexcept {
  busy_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    step_(next_);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  busy_ = false;
  if (error == nullptr) {
    ++next_;
  } else {
    error_ = std::move(error);
  }
  changed_.notify_all();
}

}  // namespace endcap
