#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "triton_util/instance.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// Threads that serve requests one by one, in the order of their arrival. What comes while several
// are idle goes to the one that became idle last: its memory is still in a cache.
class RequestThreads {
 public:
  struct Work {
    TRITONBACKEND_ModelInstance* handle;
    Instance* instance;
    TRITONBACKEND_Request* request;
  };
  // Answers and releases the request. Must not throw.
  using Serve = std::function<void(const Work&)>;

  // Throws std::system_error where the threads cannot be had.
  RequestThreads(int count, Serve serve);
  // Serves what was taken, then ends the threads.
  ~RequestThreads();
  RequestThreads(const RequestThreads&) = delete;
  RequestThreads& operator=(const RequestThreads&) = delete;

  // Thread-safe. Waits while one request for each thread is waiting already, so that the others
  // stay with the server, which knows their priorities and when they are too late.
  void Take(const Work& work) noexcept;

 private:
  // Where an idle thread waits.
  struct Seat {
    std::condition_variable wake;
    std::optional<Work> work;
  };

  void Loop(Seat& seat);
  // The next request, or none when all are served and the threads are to end.
  std::optional<Work> Next(Seat& seat);
  void Stop();

  const Serve serve_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::vector<Work> waiting_;  // oldest first; never grows beyond what the constructor reserved
  std::vector<Seat*> idle_;    // the last one became idle last; as above
  bool stopping_ = false;
  std::deque<Seat> seats_;
  std::vector<std::thread> threads_;
};

}  // namespace endcap::triton
