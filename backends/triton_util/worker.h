#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace endcap::triton {

// One thread that runs tasks in the order of their arrival, and `tick` from time to time while
// Watch is on. Tasks and tick must not throw.
class Worker {
 public:
  using Task = std::function<void()>;
  // One task, with the memory that handing it over needs.
  using Ready = std::list<Task>;

  Worker(Task tick, std::chrono::milliseconds period);
  // Runs what was posted, then ends the thread.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Thread-safe, and short: callbacks of the server may call it.
  void Post(Ready ready) noexcept;
  // Called in tasks and in tick only.
  void Watch(bool on) noexcept { watching_ = on; }

 private:
  void Loop();

  const Task tick_;
  const std::chrono::milliseconds period_;
  bool watching_ = false;  // of the thread alone
  std::mutex mutex_;
  std::condition_variable changed_;
  Ready queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace endcap::triton
