#include "triton_util/request_threads.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

namespace endcap::triton {
namespace {

double NowMs() {
  const auto since_epoch = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(since_epoch).count();
}

double CpuMs(clockid_t clock) noexcept {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

clockid_t OwnCpuClock() noexcept {
  clockid_t clock = CLOCK_MONOTONIC;  // never too little
  static_cast<void>(pthread_getcpuclockid(pthread_self(), &clock));
  return clock;
}

// Gives the calling thread the lowest priority, which is always permitted. Beside a thread of the
// process' own priority on the same CPU the kernel leaves it a hundredth of the time or two.
void LowerPriority() noexcept {
  constexpr int kLowest = 19;
  static_cast<void>(setpriority(PRIO_PROCESS, 0, kLowest));
}

std::string Milliseconds(double ms) {
  return std::to_string(static_cast<int64_t>(std::max(std::ceil(ms), 1.0))) + " ms";
}

}  // namespace

const char* RefusalReasonName(RefusalReason reason) noexcept {
  constexpr std::array kNames = {"queue", "deadline", "expired", "memory"};
  return kNames[static_cast<size_t>(reason)];
}

std::string DescribeRefusal(const Refusal& refusal) {
  std::string message = "unavailable: ";
  switch (refusal.reason) {
    case RefusalReason::kQueue:
      message += Milliseconds(refusal.before_ms) +
                 " of work wait before this request, and max_queue_cost is " +
                 Milliseconds(refusal.limit_ms);
      break;
    case RefusalReason::kDeadline:
      message += "the response would take " + Milliseconds(refusal.wait_ms + refusal.cost_ms) +
                 ", and the request's timeout is " + Milliseconds(refusal.limit_ms);
      break;
    case RefusalReason::kExpired:
      message += "the request's timeout ended in the queue";
      break;
    case RefusalReason::kMemory:
      message += "no memory is left to queue the request";
      break;
  }
  if (refusal.retry) message += "; retry after " + Milliseconds(refusal.wait_ms);
  return message;
}

void CostScale::Observe(double predicted_ms, double measured_ms) noexcept {
  constexpr double kKept = 0.98;
  constexpr double kMaxDeviation = 8;
  if (predicted_ == 0) {
    // The first request, which finds cold caches, does not decide alone.
    predicted_ = measured_ = predicted_ms;
  }
  const double expected = predicted_ms * value();
  predicted_ = kKept * predicted_ + predicted_ms;
  measured_ = kKept * measured_ +
              std::clamp(measured_ms, expected / kMaxDeviation, expected * kMaxDeviation);
}

RequestThreads::RequestThreads(int count, Serve serve, std::optional<Admission> admission)
    : serve_(std::move(serve)), admission_(std::move(admission)) {
  const auto foreground = static_cast<size_t>(count);
  foreground_.workers.resize(foreground);
  background_.background = true;
  if (admission_) background_.workers.resize(std::max<size_t>(foreground / 2, 1));
  threads_.reserve(foreground_.workers.size() + background_.workers.size());
  try {
    // Before any thread runs, because threads of one lane read the other's.
    for (Lane* lane : {&foreground_, &background_}) lane->idle.reserve(lane->workers.size());
    Start(foreground_);
    Start(background_);
  } catch (...) {
    Stop();
    throw;
  }
}

RequestThreads::~RequestThreads() { Stop(); }

void RequestThreads::Start(Lane& lane) {
  for (Worker& worker : lane.workers) {
    threads_.emplace_back([this, &lane, &worker] { Loop(lane, worker); });
  }
}

void RequestThreads::Stop() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  for (Lane* lane : {&foreground_, &background_}) {
    for (Worker& worker : lane->workers) worker.wake.notify_one();
  }
  for (std::thread& thread : threads_) thread.join();
}

RequestThreads::Lane& RequestThreads::LaneFor(const Demand& demand) noexcept {
  if (!admission_) return foreground_;
  const double cpu_ms = demand.predicted_ms * cpu_scale_.value();
  return cpu_ms > admission_->max_queue_cost ? background_ : foreground_;
}

std::optional<Refusal> RequestThreads::Decide(const Admission& admission, Lane& lane,
                                              const Demand& demand, double now_ms) const {
  constexpr double kTryAfterMs = 1000;
  const double scale = lane.scale.value();
  const auto thread_count = static_cast<double>(lane.workers.size());
  const auto busy =
      std::ranges::count_if(lane.workers, [](const Worker& each) { return each.cost_ms > 0; });
  Refusal refusal;
  refusal.cost_ms = demand.predicted_ms * scale;
  refusal.retry = true;
  // Where a thread is free for it, no work is before it.
  if (static_cast<size_t>(busy) + lane.queue.size() >= lane.workers.size()) {
    refusal.before_ms = lane.queue.CostBefore(demand.predicted_ms) * scale;
    double rest_ms = 0;
    for (const Worker& each : lane.workers) {
      rest_ms += std::max(each.cost_ms - (now_ms - each.start_ms), 0.0);
    }
    refusal.wait_ms = (refusal.before_ms + rest_ms) / thread_count;
    if (refusal.before_ms >= admission.max_queue_cost) {
      refusal.limit_ms = admission.max_queue_cost;
      return refusal;
    }
  }
  if (demand.timeout_ms && refusal.wait_ms + refusal.cost_ms > *demand.timeout_ms) {
    if (IsIdle() && now_ms - lane.tried_ms > kTryAfterMs &&
        demand.predicted_ms <= *demand.timeout_ms) {
      lane.tried_ms = now_ms;
      return std::nullopt;
    }
    refusal.reason = RefusalReason::kDeadline;
    refusal.limit_ms = *demand.timeout_ms;
    refusal.retry = refusal.cost_ms <= *demand.timeout_ms;
    return refusal;
  }
  return std::nullopt;
}

bool RequestThreads::IsIdle() const noexcept {
  const auto is_idle = [](const Lane& lane) {
    return lane.queue.empty() &&
           std::ranges::none_of(lane.workers, [](const Worker& each) { return each.cost_ms > 0; });
  };
  return is_idle(foreground_) && is_idle(background_);
}

double RequestThreads::QueuedMs() const noexcept {
  return foreground_.queue.cost() * foreground_.scale.value() +
         background_.queue.cost() * background_.scale.value();
}

RequestThreads::Worker* RequestThreads::TakeIdle(Lane& lane) noexcept {
  if (lane.idle.empty()) return nullptr;
  Worker* worker = lane.idle.back();
  lane.idle.pop_back();
  worker->idle = false;
  ++lane.waking;
  return worker;
}

void RequestThreads::Enqueue(const RequestTask& task) noexcept {
  const Demand demand = admission_ ? admission_->measure(task) : Demand{1, std::nullopt};
  std::optional<Refusal> refusal;
  {
    std::unique_lock lock(mutex_);
    const double now_ms = NowMs();
    Lane& lane = LaneFor(demand);
    if (admission_) {
      refusal = Decide(*admission_, lane, demand, now_ms);
    } else {
      dequeued_.wait(lock,
                     [&lane] { return lane.queue.size() < lane.workers.size() + lane.waking; });
    }
    try {
      if (!refusal) {
        lane.queue.Push(task, demand.predicted_ms,
                        demand.timeout_ms ? now_ms + *demand.timeout_ms : 0);
        // Before a thread takes the request, after which the model may be unloaded.
        if (admission_) {
          admission_->accepted();
          admission_->queued(QueuedMs());
        }
        if (Worker* worker = TakeIdle(lane)) worker->wake.notify_one();
        return;
      }
    } catch (const std::bad_alloc&) {
      refusal = Refusal{RefusalReason::kMemory};
    }
  }
  if (admission_) {
    admission_->refuse(task, *refusal);
  } else {
    serve_(task, /*in_background=*/false);  // on this thread, which needs no queue
  }
}

void RequestThreads::Loop(Lane& lane, Worker& worker) {
  if (lane.background) LowerPriority();
  worker.cpu_clock = OwnCpuClock();
  while (true) {
    if (admission_ && !lane.background) YieldToBackground();
    const std::optional<CostQueue::Entry> entry = Next(lane, worker);
    if (!entry) return;
    if (admission_) {
      ServeMeasured(*admission_, lane, worker, *entry);
    } else {
      dequeued_.notify_one();
      serve_(entry->task, /*in_background=*/false);
    }
  }
}

std::optional<CostQueue::Entry> RequestThreads::Next(Lane& lane, Worker& worker) {
  std::unique_lock lock(mutex_);
  while (lane.queue.empty()) {
    if (stopping_) return std::nullopt;
    worker.idle = true;
    lane.idle.push_back(&worker);
    worker.wake.wait(lock, [&] { return !worker.idle || stopping_; });
    if (!worker.idle) --lane.waking;
  }
  const CostQueue::Entry entry = lane.queue.Pop();
  if (admission_) {
    worker.cost_ms = std::max(entry.cost * lane.scale.value(), 1e-6);
    worker.start_ms = NowMs();
    worker.cpu_ms = CpuMs(worker.cpu_clock);
    worker.granted_ms = 0;
    admission_->queued(QueuedMs());
  }
  return entry;
}

void RequestThreads::YieldToBackground() {
  constexpr double kShare = 0.1;  // of a CPU
  constexpr double kMinPauseMs = 2;
  constexpr double kMaxPauseMs = 5;
  double pause_ms = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (yielding_ || stopping_) return;
    for (Worker& each : background_.workers) {
      if (each.cost_ms == 0) continue;
      const double share_ms = kShare * (NowMs() - each.start_ms);
      const double missing_ms = share_ms - (CpuMs(each.cpu_clock) - each.cpu_ms);
      // Where other processes take the CPUs, pauses are in vain.
      if (missing_ms < kMinPauseMs || each.granted_ms > share_ms) continue;
      pause_ms = std::min(missing_ms, kMaxPauseMs);
      each.granted_ms += pause_ms;
      break;
    }
    yielding_ = pause_ms > 0;
  }
  if (pause_ms == 0) return;
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(pause_ms));
  const std::scoped_lock lock(mutex_);
  yielding_ = false;
}

void RequestThreads::ServeMeasured(const Admission& admission, Lane& lane, Worker& worker,
                                   const CostQueue::Entry& entry) noexcept {
  const double start_ms = NowMs();
  bool succeeded = false;
  if (entry.deadline_ms > 0 && start_ms >= entry.deadline_ms) {
    admission.refuse(entry.task, Refusal{RefusalReason::kExpired});
  } else {
    succeeded = serve_(entry.task, lane.background);
  }
  const double end_ms = NowMs();
  const std::scoped_lock lock(mutex_);
  if (succeeded) {
    admission.served(worker.cost_ms, end_ms - start_ms);
    lane.scale.Observe(entry.cost, end_ms - start_ms);
    lane.tried_ms = end_ms;
    cpu_scale_.Observe(entry.cost, CpuMs(worker.cpu_clock) - worker.cpu_ms);
  }
  worker.cost_ms = 0;
}

bool QueueingInstance::Enqueue(TRITONBACKEND_ModelInstance* handle,
                               std::span<TRITONBACKEND_Request*> requests) noexcept {
  if (threads == nullptr) return false;
  for (TRITONBACKEND_Request* request : requests) {
    in_flight.Enter(1, SIZE_MAX);
    threads->Enqueue({handle, this, request});
  }
  return true;
}

}  // namespace endcap::triton
