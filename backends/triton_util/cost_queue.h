#pragma once

#include <array>
#include <cstddef>
#include <deque>

#include "triton_util/instance.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// A request of one instance of a model.
struct RequestTask {
  TRITONBACKEND_ModelInstance* handle;
  Instance* instance;
  TRITONBACKEND_Request* request;
};

// Requests that wait, in fair order by cost. Requests of similar cost form a class, served in the
// order of arrival; classes whose requests wait get the same share of the work. So small images
// pass large ones, and none waits for ever. Not thread-safe.
//
// Method: P. Goyal, H. Vin, H. Cheng, "Start-time Fair Queuing", SIGCOMM 1996, with a class as
// flow.
class CostQueue {
 public:
  struct Entry {
    RequestTask task;
    double cost = 0;         // predicted milliseconds of a thread, more than 0
    double deadline_ms = 0;  // by the caller's clock; 0: none
    double start = 0;        // the virtual time at which its service is due
  };

  bool empty() const noexcept { return size_ == 0; }
  size_t size() const noexcept { return size_; }
  // The cost of all requests.
  double cost() const noexcept { return cost_; }

  // Returns the cost of the requests that would be served before one of that cost, if it came now:
  // of those that wait, and of later ones as far as their classes have a share.
  double CostBefore(double cost) const noexcept;

  // Throws std::bad_alloc; the queue is then as before.
  void Push(const RequestTask& task, double cost, double deadline_ms);

  // Removes the next request. The queue must not be empty.
  Entry Pop() noexcept;

 private:
  // A class for each factor of 4 in cost, from 1 ms on.
  static constexpr size_t kClassCount = 8;
  struct CostClass {
    std::deque<Entry> entries;  // oldest first
    double finish = 0;          // the virtual time at which its last request is served
  };

  static size_t ClassOf(double cost) noexcept;
  // The start of a request of that class that comes now.
  double NextStart(size_t number) const noexcept;

  std::array<CostClass, kClassCount> classes_;
  double virtual_time_ = 0;  // the start of the last request that was removed
  size_t size_ = 0;
  double cost_ = 0;
};

}  // namespace endcap::triton
