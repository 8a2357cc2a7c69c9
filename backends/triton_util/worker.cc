#include "triton_util/worker.h"

#include <utility>

namespace endcap::triton {

Worker::Worker(Task tick, std::chrono::milliseconds period)
    : tick_(std::move(tick)), period_(period), thread_([this] { Loop(); }) {}

Worker::~Worker() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Worker::Post(PreparedTask task) noexcept {
  const std::scoped_lock lock(mutex_);
  queue_.splice(queue_.end(), task);
  // Under the lock, because the worker may be destroyed as soon as it is released.
  changed_.notify_one();
}

void Worker::Loop() {
  using Clock = std::chrono::steady_clock;
  auto next_tick = Clock::now() + period_;
  std::unique_lock lock(mutex_);
  while (true) {
    const auto woken = [this] { return stopping_ || !queue_.empty(); };
    if (ticking_) {
      changed_.wait_until(lock, next_tick, woken);
    } else {
      changed_.wait(lock, woken);
    }
    if (stopping_ && queue_.empty()) return;
    PreparedTask task;
    if (!queue_.empty()) task.splice(task.end(), queue_, queue_.begin());
    lock.unlock();
    if (!task.empty()) task.front()();
    task.clear();
    if (ticking_ && Clock::now() >= next_tick) {
      tick_();
      next_tick = Clock::now() + period_;
    }
    lock.lock();
  }
}

}  // namespace endcap::triton
