#include "endcap/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "common/fail.h"

namespace endcap {
namespace {

constexpr int kMaxThreads = 1024;

// The `stop` of the thread's StopCheck; null: it has none.
thread_local const std::function<bool()>* current_stop = nullptr;

[[noreturn]] void FailStopped() { Fail(ErrorCode::kInternal, "the call was stopped"); }

// One ParallelFor in progress. Workers and the caller take indices from `next` until none is left.
struct Job {
  const std::function<void(int)>* body = nullptr;
  int count = 0;
  std::atomic<int> next{0};
  std::atomic<int> done{0};  // or given up
  std::mutex mutex;
  std::condition_variable finished;

  // stop: as StopCheck has it; null on threads other than the caller's. Returns whether it ended
  // the job: then no index is left.
  bool Work(const std::function<bool()>* stop) {
    int completed = 0;
    bool stopped = false;
    for (int i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      (*body)(i);
      ++completed;
      if (stop == nullptr || !(*stop)()) continue;
      stopped = true;
      completed += count - std::min(next.exchange(count), count);
      break;
    }
    if (completed != 0 && done.fetch_add(completed) + completed == count) {
      const std::scoped_lock lock(mutex);
      finished.notify_all();
    }
    return stopped;
  }

  void Wait() {
    std::unique_lock lock(mutex);
    finished.wait(lock, [this] { return done.load() == count; });
  }
};

}  // namespace

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::shared_ptr<Job>> queue;
  bool stopping = false;
  std::vector<std::thread> threads;
  const pid_t process = getpid();

  // A child of fork has the memory of the pool but none of its threads, and its mutex may have been
  // locked by one of them.
  bool InheritedByFork() const noexcept { return getpid() != process; }

  void Run() {
    for (;;) {
      std::shared_ptr<Job> job;
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [this] { return stopping || !queue.empty(); });
        if (queue.empty()) return;
        job = std::move(queue.front());
        queue.pop_front();
      }
      job->Work(/*stop=*/nullptr);
    }
  }

  void Stop() {
    {
      const std::scoped_lock lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

ThreadPool::ThreadPool(int thread_count)
    : thread_count_(thread_count == 0 ? AvailableCpuCount() : thread_count),
      state_(std::make_unique<State>()) {
  if (thread_count < 0 || thread_count > kMaxThreads) {
    FailArgument("threads is ", thread_count, ": give 1 to ", kMaxThreads, ", or 0 for all CPUs");
  }
  try {
    for (int i = 1; i < thread_count_; ++i) {
      state_->threads.emplace_back([state = state_.get()] { state->Run(); });
    }
  } catch (...) {
    state_->Stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  if (state_->InheritedByFork()) {
    static_cast<void>(state_.release());  // no thread to join; the memory goes with the process
  } else {
    state_->Stop();
  }
}

void ThreadPool::ParallelFor(int count, const std::function<void(int)>& body) {
  if (count <= 1 || thread_count_ == 1 || state_->InheritedByFork()) {
    for (int i = 0; i < count; ++i) {
      body(i);
      if (current_stop != nullptr && count > 1 && (*current_stop)()) FailStopped();
    }
    return;
  }
  auto job = std::make_shared<Job>();
  job->body = &body;
  job->count = count;
  {
    const std::scoped_lock lock(state_->mutex);
    const int helpers = std::min(thread_count_ - 1, count - 1);
    try {
      for (int i = 0; i < helpers; ++i) state_->queue.push_back(job);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
      // Fewer helpers, or none: this thread does what they leave.
    }
  }
  state_->wake.notify_all();
  const bool stopped = job->Work(current_stop);
  job->Wait();
  if (stopped) FailStopped();
}

StopCheck::StopCheck(const std::function<bool()>& stop) noexcept
    : outer_(std::exchange(current_stop, &stop)) {}

StopCheck::~StopCheck() { current_stop = outer_; }

int AvailableCpuCount() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace endcap
