#include "triton_util/request_threads.h"

#include <utility>

namespace endcap::triton {

RequestThreads::RequestThreads(int count, Serve serve) : serve_(std::move(serve)) {
  const auto size = static_cast<size_t>(count);
  queue_.reserve(size);
  idle_.reserve(size);
  threads_.reserve(size);
  try {
    for (int i = 0; i < count; ++i) {
      Slot& slot = slots_.emplace_back();
      threads_.emplace_back([this, &slot] { Loop(slot); });
    }
  } catch (...) {
    Stop();
    throw;
  }
}

RequestThreads::~RequestThreads() { Stop(); }

void RequestThreads::Enqueue(const Task& task) noexcept {
  Slot* slot = nullptr;
  {
    std::unique_lock lock(mutex_);
    dequeued_.wait(lock, [this] { return queue_.size() < queue_.capacity(); });
    if (idle_.empty()) {
      queue_.push_back(task);
      return;
    }
    slot = idle_.back();
    idle_.pop_back();
    slot->task = task;
  }
  slot->wake.notify_one();
}

std::optional<RequestThreads::Task> RequestThreads::Next(Slot& slot) {
  std::unique_lock lock(mutex_);
  if (!queue_.empty()) {
    const Task task = queue_.front();
    queue_.erase(queue_.begin());
    lock.unlock();
    dequeued_.notify_one();
    return task;
  }
  if (stopping_) return std::nullopt;
  idle_.push_back(&slot);
  slot.wake.wait(lock, [&] { return slot.task.has_value() || stopping_; });
  return std::exchange(slot.task, std::nullopt);
}

void RequestThreads::Loop(Slot& slot) {
  while (const std::optional<Task> task = Next(slot)) serve_(*task);
}

void RequestThreads::Stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  for (Slot& slot : slots_) slot.wake.notify_one();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace endcap::triton
