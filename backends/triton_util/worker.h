#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace endcap::triton {

// One thread that runs tasks in the order of their arrival, and `tick` periodically while ticking
// is on. Tasks and tick must not throw.
class Worker {
 public:
  using Task = std::function<void()>;
  // One task and the memory for queueing it, so that Post allocates nothing.
  using PreparedTask = std::list<Task>;

  Worker(Task tick, std::chrono::milliseconds period);
  // Runs the queued tasks, then ends the thread.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Queues a task. Thread-safe and short: callbacks of the server may call it.
  void Post(PreparedTask task) noexcept;
  // Turns ticking on or off. Call it in tasks and in tick only.
  void SetTicking(bool on) noexcept { ticking_ = on; }

 private:
  void Loop();

  const Task tick_;
  const std::chrono::milliseconds period_;
  bool ticking_ = false;  // accessed by the thread only
  std::mutex mutex_;
  std::condition_variable changed_;
  PreparedTask queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace endcap::triton
