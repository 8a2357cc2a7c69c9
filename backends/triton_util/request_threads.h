#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "triton_util/cost_queue.h"
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

// What a request asks for.
struct Demand {
  double predicted_ms = 0;           // on one thread, before it is corrected by what was measured
  std::optional<double> timeout_ms;  // from now
};

enum class RefusalReason : uint8_t {
  kQueue,     // too much work waits before it
  kDeadline,  // its response would come after its timeout
  kExpired,   // its timeout ended while it waited
  kMemory,    // it could not be queued
};
inline constexpr size_t kRefusalReasonCount = 4;

// The label of a metric: "queue", "deadline", "expired", "memory".
const char* RefusalReasonName(RefusalReason reason) noexcept;

struct Refusal {
  RefusalReason reason = RefusalReason::kQueue;
  double before_ms = 0;  // the work that waits before it
  double wait_ms = 0;    // until the requests before it would be served
  double cost_ms = 0;    // of the request itself
  double limit_ms = 0;   // the limit that it exceeds: of the queue, or its timeout
  bool retry = false;    // whether the same request may be accepted after wait_ms
};

// Returns the message for the client. Its end, "; retry after N ms", is read by endcap's clients.
std::string DescribeRefusal(const Refusal& refusal);

// How much longer requests take than predicted: measured time divided by predicted time, of the
// last ones; 1 before the first. Not thread-safe.
class CostScale {
 public:
  double value() const noexcept { return predicted_ == 0 ? 1 : measured_ / predicted_; }
  // One that is far off counts as one that is off by a factor of 8.
  void Observe(double predicted_ms, double measured_ms) noexcept;

 private:
  double measured_ = 0;
  double predicted_ = 0;
};

// Decides which requests RequestThreads takes. Its functions are called by any thread and must not
// throw.
//
// A request is refused when the work that would be served before it exceeds max_queue_cost, or when
// its response would come after its timeout. A request that alone costs more than max_queue_cost,
// in CPU time of the thread that serves it, is served in the background, by threads of the lowest
// scheduling priority. Where it gets less than a tenth of a CPU so, the other threads pause for it
// between requests.
//
// Predictions are corrected by the requests that were served. So that a correction which refuses
// everything does not last, one request a second is accepted by an idle server in spite of it.
struct Admission {
  double max_queue_cost = 0;  // milliseconds
  std::function<Demand(const RequestTask&)> measure;
  // Responds to the request with an error and releases it.
  std::function<void(const RequestTask&, const Refusal&)> refuse;
  std::function<void()> accepted;
  // The work that waits, whenever it has changed.
  std::function<void(double queued_ms)> queued;
  // The times of a served request of which nothing failed, the first as corrected when it began.
  std::function<void(double predicted_ms, double measured_ms)> served;
};

// Threads that serve the requests of a model's instances one by one: without admission in the order
// of their arrival, with it in the order of CostQueue. If several threads are idle, the one that
// became idle last takes the request, because its memory may still be in a cache.
class RequestThreads {
 public:
  // Responds to the request and releases it; must not throw. Returns whether nothing of it failed.
  using Serve = std::function<bool(const RequestTask&, bool in_background)>;

  // Throws std::system_error if the threads cannot be created.
  RequestThreads(int count, Serve serve, std::optional<Admission> admission = std::nullopt);
  // Serves the queued requests, then ends the threads.
  ~RequestThreads();
  RequestThreads(const RequestThreads&) = delete;
  RequestThreads& operator=(const RequestThreads&) = delete;

  // Takes ownership of the request. Thread-safe. Without admission it blocks while as many requests
  // are queued as there are threads, so that the others stay in the server's queue, which applies
  // priorities and timeouts; with it the request is queued or refused at once.
  void Enqueue(const RequestTask& task) noexcept;

 private:
  // A thread, and the request that it serves. The times are those of an admission.
  struct Worker {
    std::condition_variable wake;
    bool idle = false;
    double cost_ms = 0;  // 0: no request
    double start_ms = 0;
    double cpu_ms = 0;      // CPU time of the thread at the start
    double granted_ms = 0;  // how long others have paused for it
    clockid_t cpu_clock = 0;
  };
  // The threads of one priority and the requests that wait for them.
  struct Lane {
    bool background = false;
    CostQueue queue;             // costs as predicted
    CostScale scale;             // of the time from beginning to end
    double tried_ms = 0;         // when the scale was last corrected, or tried in spite of it
    std::deque<Worker> workers;  // never moved
    std::vector<Worker*> idle;   // the last one became idle last; its memory is reserved
    size_t waking = 0;           // threads that were idle and go to the queue
  };

  void Start(Lane& lane);
  void Loop(Lane& lane, Worker& worker);
  // Waits for the next request and takes it. None when the threads are to end.
  std::optional<CostQueue::Entry> Next(Lane& lane, Worker& worker);
  // Pauses while a request in the background gets too little CPU time.
  void YieldToBackground();
  void ServeMeasured(const Admission& admission, Lane& lane, Worker& worker,
                     const CostQueue::Entry& entry) noexcept;
  void Stop() noexcept;
  // The functions below need the lock.
  Lane& LaneFor(const Demand& demand) noexcept;
  std::optional<Refusal> Decide(const Admission& admission, Lane& lane, const Demand& demand,
                                double now_ms) const;
  bool IsIdle() const noexcept;
  double QueuedMs() const noexcept;
  // Returns the thread to wake, none if all are busy.
  static Worker* TakeIdle(Lane& lane) noexcept;

  const Serve serve_;
  const std::optional<Admission> admission_;
  std::mutex mutex_;
  std::condition_variable dequeued_;
  Lane foreground_;
  Lane background_;
  CostScale cpu_scale_;  // of the CPU time in both lanes, which other programs do not lengthen
  bool stopping_ = false;
  bool yielding_ = false;  // one thread pauses at a time
  std::vector<std::thread> threads_;
};

// An instance whose requests threads serve, if it has any. The destructor of a derived class calls
// in_flight.WaitUntilNone(), because its own members are destroyed before this destructor runs.
struct QueueingInstance : Instance {
  using Instance::Instance;

  // Passes the requests to the threads; returns false if there are none. Whoever has served a
  // request calls in_flight.Leave(1).
  bool Enqueue(TRITONBACKEND_ModelInstance* handle,
               std::span<TRITONBACKEND_Request*> requests) noexcept;

  InFlight in_flight;                       // requests in `threads`
  std::shared_ptr<RequestThreads> threads;  // null: none
};

}  // namespace endcap::triton
