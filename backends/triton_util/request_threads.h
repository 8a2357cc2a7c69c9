#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "triton_util/instance.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// Counts requests, images or runs that are being served. Thread-safe.
class InFlight {
 public:
  // Waits until the count with `count` more is within `limit`, or nothing else is in flight, and
  // adds `count`. Callers enter in the order of their calls.
  void Enter(size_t count, size_t limit) {
    std::unique_lock lock(mutex_);
    const uint64_t ticket = tickets_++;
    changed_.wait(lock,
                  [&] { return ticket == entered_ && (count_ == 0 || count_ + count <= limit); });
    ++entered_;
    count_ += count;
    changed_.notify_all();
  }
  void Leave(size_t count) noexcept {
    const std::scoped_lock lock(mutex_);
    count_ -= count;
    // Under the lock, because this object may be destroyed as soon as it is released.
    changed_.notify_all();
  }
  void WaitUntilNone() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t count_ = 0;
  uint64_t tickets_ = 0;  // calls of Enter
  uint64_t entered_ = 0;  // calls of Enter that have returned
};

// A request of one instance of a model.
struct RequestTask {
  TRITONBACKEND_ModelInstance* handle;
  Instance* instance;
  TRITONBACKEND_Request* request;
};

// Serves the requests of a model's instances one by one, on threads of its own.
class RequestExecutor {
 public:
  RequestExecutor() = default;
  // Serves what is queued, then ends the threads.
  virtual ~RequestExecutor() = default;
  RequestExecutor(const RequestExecutor&) = delete;
  RequestExecutor& operator=(const RequestExecutor&) = delete;

  // Takes ownership of the request. Thread-safe.
  virtual void Enqueue(const RequestTask& task) noexcept = 0;
};

// Threads that serve requests one by one, in the order of their arrival. If several threads are
// idle, the one that became idle last takes the request, because its memory may still be in a
// cache.
class RequestThreads final : public RequestExecutor {
 public:
  using Task = RequestTask;
  // Responds to the request and releases it. Must not throw.
  using Serve = std::function<void(const Task&)>;

  // Throws std::system_error if the threads cannot be created.
  RequestThreads(int count, Serve serve);
  ~RequestThreads() override;

  // Queues a request. Blocks while as many requests are queued as there are threads, so that the
  // others stay in the server's queue, which applies priorities and timeouts.
  void Enqueue(const Task& task) noexcept override;

 private:
  // An idle thread waits here for its next request.
  struct Slot {
    std::condition_variable wake;
    std::optional<Task> task;
  };

  void Loop(Slot& slot);
  // Returns the next request; none when all are served and the threads are to end.
  std::optional<Task> Next(Slot& slot);
  void Stop();

  const Serve serve_;
  std::mutex mutex_;
  std::condition_variable dequeued_;
  std::vector<Task> queue_;  // oldest first; never larger than reserved by the constructor
  std::vector<Slot*> idle_;  // the last one became idle last; likewise
  bool stopping_ = false;
  std::deque<Slot> slots_;
  std::vector<std::thread> threads_;
};

}  // namespace endcap::triton
