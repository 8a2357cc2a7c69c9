#include "decode/read_ahead.h"

#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace endcap {
namespace {

// Waking a thread up takes as long as a short step, so that threads first wait awake.
constexpr std::chrono::microseconds kAwake(100);
// Several times as long as a step takes, and less than the turn of another process.
constexpr std::chrono::milliseconds kLongestStep(1);
constexpr std::chrono::milliseconds kForever = std::chrono::hours(1);

void Pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void ReadAhead::Begin(std::function<void(int)> step) {
  const std::scoped_lock lock(mutex_);
  step_ = std::move(step);
  next_ = 0;
  allowed_ = 0;
  error_ = nullptr;
}

void ReadAhead::Allow(int end) {
  const std::scoped_lock lock(mutex_);
  if (end <= allowed_) return;
  allowed_ = end;
  Notify();
}

void ReadAhead::Require(int i) {
  Lock lock(mutex_);
  while (next_ <= i) {
    if (busy_) {
      const bool in_time = WaitForChange(lock, late_ ? kForever : kLongestStep);
      if (!in_time && busy_) late_ = ended_ = true;
    } else if (error_ != nullptr) {
      std::rethrow_exception(error_);
    } else {
      DoNext(lock);
    }
  }
}

void ReadAhead::End() noexcept {
  Lock lock(mutex_);
  ended_ = true;
  Notify();
  changed_.wait(lock, [this] { return !busy_; });
}

void ReadAhead::Help(const std::function<bool()>& is_to_leave) noexcept {
  Lock lock(mutex_);
  while (!ended_ && !is_to_leave()) {
    if (!busy_ && next_ < allowed_ && error_ == nullptr) {
      DoNext(lock);
    } else {
      WaitForChange(lock, kForever);
    }
  }
}

void ReadAhead::DoNext(Lock& lock) noexcept {
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
  Notify();
}

void ReadAhead::Notify() noexcept {
  ++changes_;
  changed_.notify_all();
}

bool ReadAhead::WaitForChange(Lock& lock, std::chrono::milliseconds most) {
  const uint32_t seen = changes_;
  lock.unlock();
  const auto end = std::chrono::steady_clock::now() + kAwake;
  while (changes_ == seen && std::chrono::steady_clock::now() < end) Pause();
  lock.lock();
  return changed_.wait_for(lock, most, [this, seen] { return changes_ != seen; });
}

}  // namespace endcap
