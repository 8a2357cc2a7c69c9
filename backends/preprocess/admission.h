#pragma once

#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "preprocess/cost_queue.h"
#include "triton_util/request_threads.h"

namespace endcap::triton {

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

// Threads that serve requests by predicted cost, and refuse at once those that would wait too long.
//
// A request is refused when the work that would be served before it exceeds max_queue_cost, or when
// its response would come after its timeout. A request that alone costs more than max_queue_cost,
// in CPU time of the thread that serves it, is served in the background, by threads of the lowest
// scheduling priority. Where it gets less than a tenth of a CPU so, the other threads pause for it
// between requests.
//
// Predictions are corrected by the requests that were served. So that a correction which refuses
// everything does not last, one request a second is accepted by an idle server in spite of it.
class AdmissionThreads final : public RequestExecutor {
 public:
  // Called by any thread; must not throw.
  struct Hooks {
    std::function<Demand(const RequestTask&)> measure;
    // Responds to the request and releases it. Returns whether nothing of it failed.
    std::function<bool(const RequestTask&, bool in_background)> serve;
    // The same with an error.
    std::function<void(const RequestTask&, const Refusal&)> refuse;
    std::function<void()> accepted;
    // The work that waits, whenever it has changed.
    std::function<void(double queued_ms)> queued;
    // The times of a served request of which nothing failed, the first as corrected when it began.
    std::function<void(double predicted_ms, double measured_ms)> served;
  };

  // max_queue_cost: milliseconds. Throws std::system_error if the threads cannot be created.
  AdmissionThreads(int count, double max_queue_cost, Hooks hooks);
  // Serves the queued requests, then ends the threads.
  ~AdmissionThreads() override;

  // Measures the request and queues or refuses it; does not wait for other requests.
  void Enqueue(const RequestTask& task) noexcept override;

 private:
  // A thread and the request that it serves.
  struct Running {
    double cost_ms = 0;  // 0: the thread is idle
    double start_ms = 0;
    double cpu_ms = 0;      // CPU time of the thread at the start
    double granted_ms = 0;  // how long others have paused for it
    clockid_t cpu_clock = 0;
  };
  // The threads of one priority and the requests that wait for them.
  struct Lane {
    bool background = false;
    CostQueue queue;               // costs as predicted
    CostScale scale;               // of the time from beginning to end
    double tried_ms = 0;           // when the scale was last corrected, or tried in spite of it
    std::vector<Running> running;  // by thread
    std::condition_variable changed;
  };

  void Start(Lane& lane, size_t count);
  void Loop(Lane& lane, size_t number);
  // Pauses while a request in the background gets too little CPU time.
  void YieldToBackground();
  void Serve(Lane& lane, size_t number, const CostQueue::Entry& entry) noexcept;
  void Stop() noexcept;
  // The functions below need the lock.
  Lane& LaneFor(const Demand& demand) noexcept;
  std::optional<Refusal> Decide(Lane& lane, const Demand& demand, double now_ms) const;
  bool IsIdle() const noexcept;
  double QueuedMs() const noexcept;

  const double max_queue_cost_;
  const Hooks hooks_;
  std::mutex mutex_;
  Lane foreground_;
  Lane background_;
  CostScale cpu_scale_;  // of the CPU time in both lanes, which other programs do not lengthen
  bool stopping_ = false;
  bool yielding_ = false;  // one thread pauses at a time
  std::vector<std::thread> threads_;
};

}  // namespace endcap::triton
