#include "preprocess/admission.h"

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
  constexpr double kMostOff = 8;
  if (predicted_ == 0) {
    // The first request, which finds cold caches, does not decide alone.
    predicted_ = measured_ = predicted_ms;
  }
  const double expected = predicted_ms * value();
  predicted_ = kKept * predicted_ + predicted_ms;
  measured_ = kKept * measured_ + std::clamp(measured_ms, expected / kMostOff, expected * kMostOff);
}

AdmissionThreads::AdmissionThreads(int count, double max_queue_cost, Hooks hooks)
    : max_queue_cost_(max_queue_cost), hooks_(std::move(hooks)) {
  const auto foreground = static_cast<size_t>(count);
  const size_t background = std::max<size_t>(foreground / 2, 1);
  background_.background = true;
  threads_.reserve(foreground + background);
  // Before any thread runs, because threads of one lane read the other's.
  foreground_.running.resize(foreground);
  background_.running.resize(background);
  try {
    Start(foreground_, foreground);
    Start(background_, background);
  } catch (...) {
    Stop();
    throw;
  }
}

AdmissionThreads::~AdmissionThreads() { Stop(); }

void AdmissionThreads::Start(Lane& lane, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    threads_.emplace_back([this, &lane, i] { Loop(lane, i); });
  }
}

void AdmissionThreads::Stop() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  foreground_.changed.notify_all();
  background_.changed.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

AdmissionThreads::Lane& AdmissionThreads::LaneFor(const Demand& demand) noexcept {
  const double cpu_ms = demand.predicted_ms * cpu_scale_.value();
  return cpu_ms > max_queue_cost_ ? background_ : foreground_;
}

std::optional<Refusal> AdmissionThreads::Decide(Lane& lane, const Demand& demand,
                                                double now_ms) const {
  constexpr double kTryAfterMs = 1000;
  const double scale = lane.scale.value();
  const auto thread_count = static_cast<double>(lane.running.size());
  const auto busy =
      std::ranges::count_if(lane.running, [](const Running& each) { return each.cost_ms > 0; });
  Refusal refusal;
  refusal.cost_ms = demand.predicted_ms * scale;
  refusal.retry = true;
  // Where a thread is free for it, no work is before it.
  if (static_cast<size_t>(busy) + lane.queue.size() >= lane.running.size()) {
    refusal.before_ms = lane.queue.CostBefore(demand.predicted_ms) * scale;
    double rest_ms = 0;
    for (const Running& each : lane.running) {
      rest_ms += std::max(each.cost_ms - (now_ms - each.start_ms), 0.0);
    }
    refusal.wait_ms = (refusal.before_ms + rest_ms) / thread_count;
    if (refusal.before_ms >= max_queue_cost_) {
      refusal.limit_ms = max_queue_cost_;
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

bool AdmissionThreads::IsIdle() const noexcept {
  const auto is_idle = [](const Lane& lane) {
    return lane.queue.empty() &&
           std::ranges::none_of(lane.running, [](const Running& each) { return each.cost_ms > 0; });
  };
  return is_idle(foreground_) && is_idle(background_);
}

double AdmissionThreads::QueuedMs() const noexcept {
  return foreground_.queue.cost() * foreground_.scale.value() +
         background_.queue.cost() * background_.scale.value();
}

void AdmissionThreads::Enqueue(const RequestTask& task) noexcept {
  const Demand demand = hooks_.measure(task);
  std::optional<Refusal> refusal;
  {
    const std::scoped_lock lock(mutex_);
    const double now_ms = NowMs();
    Lane& lane = LaneFor(demand);
    refusal = Decide(lane, demand, now_ms);
    if (!refusal) {
      try {
        lane.queue.Push(task, demand.predicted_ms,
                        demand.timeout_ms ? now_ms + *demand.timeout_ms : 0);
        // Before a thread takes the request, after which the model may be unloaded.
        hooks_.accepted();
        hooks_.queued(QueuedMs());
        lane.changed.notify_one();
        return;
      } catch (const std::bad_alloc&) {
        refusal = Refusal{RefusalReason::kMemory};
      }
    }
  }
  hooks_.refuse(task, *refusal);
}

void AdmissionThreads::Loop(Lane& lane, size_t number) {
  const clockid_t cpu_clock = OwnCpuClock();
  if (lane.background) LowerPriority();
  while (true) {
    if (!lane.background) YieldToBackground();
    CostQueue::Entry entry;
    {
      std::unique_lock lock(mutex_);
      lane.changed.wait(lock, [&] { return !lane.queue.empty() || stopping_; });
      if (lane.queue.empty()) return;
      entry = lane.queue.Pop();
      lane.running[number] = {.cost_ms = std::max(entry.cost * lane.scale.value(), 1e-6),
                              .start_ms = NowMs(),
                              .cpu_ms = CpuMs(cpu_clock),
                              .cpu_clock = cpu_clock};
      hooks_.queued(QueuedMs());
    }
    Serve(lane, number, entry);
  }
}

void AdmissionThreads::YieldToBackground() {
  constexpr double kShare = 0.1;  // of a CPU
  constexpr double kLeastMs = 2;
  constexpr double kMostMs = 5;
  double pause_ms = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (yielding_ || stopping_) return;
    for (Running& each : background_.running) {
      if (each.cost_ms == 0) continue;
      const double share_ms = kShare * (NowMs() - each.start_ms);
      const double missing_ms = share_ms - (CpuMs(each.cpu_clock) - each.cpu_ms);
      // Where other processes take the CPUs, pauses are in vain.
      if (missing_ms < kLeastMs || each.granted_ms > share_ms) continue;
      pause_ms = std::min(missing_ms, kMostMs);
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

void AdmissionThreads::Serve(Lane& lane, size_t number, const CostQueue::Entry& entry) noexcept {
  const double start_ms = NowMs();
  if (entry.deadline_ms > 0 && start_ms >= entry.deadline_ms) {
    hooks_.refuse(entry.task, Refusal{RefusalReason::kExpired});
    const std::scoped_lock lock(mutex_);
    lane.running[number] = {};
    return;
  }
  const bool succeeded = hooks_.serve(entry.task, lane.background);
  const double end_ms = NowMs();
  const std::scoped_lock lock(mutex_);
  Running& running = lane.running[number];
  if (succeeded) {
    hooks_.served(running.cost_ms, end_ms - start_ms);
    lane.scale.Observe(entry.cost, end_ms - start_ms);
    lane.tried_ms = end_ms;
    cpu_scale_.Observe(entry.cost, CpuMs(running.cpu_clock) - running.cpu_ms);
  }
  running = {};
}

}  // namespace endcap::triton
