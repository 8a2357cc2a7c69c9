#include "triton_util/request_threads.h"

#include <utility>

namespace endcap::triton {

RequestThreads::RequestThreads(int count, Serve serve) : serve_(std::move(serve)) {
  const auto size = static_cast<size_t>(count);
  waiting_.reserve(size);
  idle_.reserve(size);
  threads_.reserve(size);
  try {
    for (int i = 0; i < count; ++i) {
      Seat& seat = seats_.emplace_back();
      threads_.emplace_back([this, &seat] { Loop(seat); });
    }
  } catch (...) {
    Stop();
    throw;
  }
}

RequestThreads::~RequestThreads() { Stop(); }

void RequestThreads::Take(const Work& work) noexcept {
  Seat* seat = nullptr;
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return waiting_.size() < waiting_.capacity(); });
    if (idle_.empty()) {
      waiting_.push_back(work);
      return;
    }
    seat = idle_.back();
    idle_.pop_back();
    seat->work = work;
  }
  seat->wake.notify_one();
}

std::optional<RequestThreads::Work> RequestThreads::Next(Seat& seat) {
  std::unique_lock lock(mutex_);
  if (!waiting_.empty()) {
    const Work work = waiting_.front();
    waiting_.erase(waiting_.begin());
    lock.unlock();
    room_.notify_one();
    return work;
  }
  if (stopping_) return std::nullopt;
  idle_.push_back(&seat);
  seat.wake.wait(lock, [&] { return seat.work.has_value() || stopping_; });
  return std::exchange(seat.work, std::nullopt);
}

void RequestThreads::Loop(Seat& seat) {
  while (const std::optional<Work> work = Next(seat)) serve_(*work);
}

void RequestThreads::Stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  for (Seat& seat : seats_) seat.wake.notify_one();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace endcap::triton
