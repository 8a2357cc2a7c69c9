#include "decode/crew.h"

namespace endcap {

void Crew::Begin(Work& work) {
  const std::scoped_lock lock(mutex_);
  work_ = &work;
  changed_.notify_all();
}

void Crew::WorkUntil(const std::function<bool()>& is_done) {
  Lock lock(mutex_);
  while (!is_done()) {
    if (!DoJob(lock, /*is_owner=*/true)) changed_.wait(lock);
  }
}

void Crew::End() noexcept {
  Lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return busy_helpers_ == 0; });
  work_ = nullptr;
}

void Crew::Help(const std::function<bool()>& is_to_leave) noexcept {
  Lock lock(mutex_);
  while (!ended_ && !is_to_leave()) {
    ++busy_helpers_;
    const bool worked = DoJob(lock, /*is_owner=*/false);
    --busy_helpers_;
    jobs_of_helpers_ += worked ? 1 : 0;
    if (!worked && !ended_) changed_.wait(lock);
  }
  changed_.notify_all();
}

// What a job changes may let others begin, or the owner go on.
bool Crew::DoJob(Lock& lock, bool is_owner) noexcept {
  if (work_ == nullptr || !work_->DoJob(lock, is_owner)) return false;
  changed_.notify_all();
  return true;
}

}  // namespace endcap
