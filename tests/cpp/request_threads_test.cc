#include "triton_util/request_threads.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace endcap::triton {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Requests are identified by their addresses, which nothing dereferences.
std::array<char, 4000> addresses;

RequestTask MakeTask(size_t number) {
  return {nullptr, nullptr, reinterpret_cast<TRITONBACKEND_Request*>(&addresses.at(number))};
}
size_t GetNumber(const RequestTask& task) {
  return static_cast<size_t>(reinterpret_cast<const char*>(task.request) - addresses.data());
}

// Hooks that do nothing, but for these.
Admission Hooks(double max_queue_cost, std::function<Demand(const RequestTask&)> measure,
                std::function<void(const RequestTask&, const Refusal&)> refuse) {
  Admission hooks;
  hooks.max_queue_cost = max_queue_cost;
  hooks.measure = std::move(measure);
  hooks.refuse = std::move(refuse);
  hooks.accepted = [] {};
  hooks.queued = [](double) {};
  hooks.served = [](double, double) {};
  return hooks;
}

// Blocks threads until it is opened.
class Gate {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void Open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void AwaitThreads(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

TEST(RequestThreads, ServesOrRefusesEachRequestOnce) {
  constexpr size_t kCallers = 4;
  constexpr size_t kEach = 1000;
  for (const bool is_limited : {false, true}) {
    std::vector<std::atomic<int>> ends(kCallers * kEach);
    const auto end = [&](const RequestTask& task) { return ++ends[GetNumber(task)] == 1; };
    const auto measure = [](const RequestTask& task) {
      return Demand{0.1 + static_cast<double>(GetNumber(task) % 7) * 4, std::nullopt};
    };
    std::optional<Admission> admission;
    if (is_limited) admission = Hooks(20, measure, [&](const auto& task, auto&) { end(task); });
    {
      const auto serve = [&](const RequestTask& task, bool) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));  // so that a queue builds up
        return end(task);
      };
      RequestThreads threads(3, serve, admission);
      std::vector<std::thread> callers;
      for (size_t c = 0; c < kCallers; ++c) {
        callers.emplace_back([&threads, c] {
          for (size_t i = 0; i < kEach; ++i) threads.Enqueue(MakeTask(c * kEach + i));
        });
      }
      for (std::thread& caller : callers) caller.join();
    }
    for (const std::atomic<int>& times : ends) EXPECT_EQ(times, 1);
  }
}

TEST(RequestThreads, OneThreadKeepsTheOrder) {
  std::vector<size_t> order;
  {
    RequestThreads threads(1, [&](const RequestTask& task, bool) {
      order.push_back(GetNumber(task));
      return true;
    });
    for (size_t i = 0; i < 200; ++i) threads.Enqueue(MakeTask(i));
  }
  ASSERT_EQ(order.size(), 200U);
  for (size_t i = 0; i < 200; ++i) EXPECT_EQ(order[i], i);
}

TEST(RequestThreads, QueuesOneRequestForEachBusyThreadAndThenBlocks) {
  Gate gate;
  RequestThreads threads(2, [&](const RequestTask&, bool) {
    gate.Pass();
    return true;
  });
  for (size_t i = 0; i < 2; ++i) threads.Enqueue(MakeTask(i));
  gate.AwaitThreads(2);
  for (size_t i = 2; i < 4; ++i) threads.Enqueue(MakeTask(i));  // queued
  auto fifth = std::async(std::launch::async, [&] { threads.Enqueue(MakeTask(4)); });
  EXPECT_EQ(fifth.wait_for(milliseconds(50)), std::future_status::timeout);
  gate.Open();
  fifth.wait();
}

TEST(RequestThreads, ServesQueuedRequestsBeforeItEnds) {
  std::atomic<int> served = 0;
  {
    RequestThreads threads(2, [&](const RequestTask&, bool) {
      std::this_thread::sleep_for(milliseconds(5));
      ++served;
      return true;
    });
    for (size_t i = 0; i < 6; ++i) threads.Enqueue(MakeTask(i));
  }
  EXPECT_EQ(served, 6);
}

TEST(InFlight, ABatchAboveTheLimitEntersAlone) {
  InFlight in_flight;
  in_flight.Enter(5, 3);  // more than the limit, but nothing else is in flight
  auto second = std::async(std::launch::async, [&] { in_flight.Enter(2, 3); });
  EXPECT_EQ(second.wait_for(milliseconds(20)), std::future_status::timeout);
  in_flight.Leave(3);
  EXPECT_EQ(second.wait_for(milliseconds(20)), std::future_status::timeout);
  in_flight.Leave(1);
  second.get();
  auto none = std::async(std::launch::async, [&] { in_flight.WaitUntilNone(); });
  EXPECT_EQ(none.wait_for(milliseconds(20)), std::future_status::timeout);
  in_flight.Leave(3);
  none.get();
}

TEST(InFlight, EntersInTheOrderOfCalls) {
  InFlight in_flight;
  in_flight.Enter(2, 3);
  auto large = std::async(std::launch::async, [&] { in_flight.Enter(3, 3); });
  EXPECT_EQ(large.wait_for(milliseconds(20)), std::future_status::timeout);
  auto small = std::async(std::launch::async, [&] { in_flight.Enter(1, 3); });
  EXPECT_EQ(small.wait_for(milliseconds(20)), std::future_status::timeout);
  in_flight.Leave(2);
  large.get();
  EXPECT_EQ(small.wait_for(milliseconds(20)), std::future_status::timeout);
  in_flight.Leave(3);
  small.get();
}

// Threads whose requests wait, when they are served, until they are let through.
class Served {
 public:
  Served(int threads, double max_queue_cost) {
    Admission hooks;
    hooks.max_queue_cost = max_queue_cost;
    hooks.measure = [this](const RequestTask& task) { return demands_.at(GetNumber(task)); };
    const auto serve = [this](const RequestTask& task, bool in_background) {
      return Serve(GetNumber(task), in_background);
    };
    hooks.refuse = [this](const RequestTask& task, const Refusal& refusal) {
      const std::scoped_lock lock(mutex_);
      refusals_.emplace(GetNumber(task), refusal);
      changed_.notify_all();
    };
    hooks.accepted = [this] { ++accepted_; };
    hooks.queued = [this](double ms) { queued_ms_ = ms; };
    hooks.served = [](double, double) {};
    threads_ = std::make_unique<RequestThreads>(threads, serve, std::move(hooks));
  }
  ~Served() { End(); }

  // Returns the request's number.
  size_t Enqueue(double cost_ms, std::optional<double> timeout_ms = std::nullopt) {
    size_t number = 0;
    {
      const std::scoped_lock lock(mutex_);
      number = count_++;
      demands_.at(number) = {cost_ms, timeout_ms};
    }
    threads_->Enqueue(MakeTask(number));
    return number;
  }
  void AwaitBegun(size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, seconds(20), [&] { return begun_.size() >= count; }));
  }
  void Open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Serves the rest.
  void End() {
    Open();
    threads_.reset();
  }
  const Refusal* RefusalOf(size_t number) {
    const std::scoped_lock lock(mutex_);
    const auto found = refusals_.find(number);
    return found == refusals_.end() ? nullptr : &found->second;
  }
  std::vector<size_t> begun() {
    const std::scoped_lock lock(mutex_);
    return begun_;
  }
  bool WasInBackground(size_t number) {
    const std::scoped_lock lock(mutex_);
    return background_.at(number);
  }
  int accepted() const { return accepted_; }
  double queued_ms() const { return queued_ms_; }

 private:
  bool Serve(size_t number, bool in_background) {
    std::unique_lock lock(mutex_);
    begun_.push_back(number);
    background_[number] = in_background;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    return false;  // so that the waits here do not count as measurements
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Demand, addresses.size()> demands_;
  size_t count_ = 0;
  bool open_ = false;
  std::vector<size_t> begun_;
  std::map<size_t, bool> background_;
  std::map<size_t, Refusal> refusals_;
  std::atomic<int> accepted_ = 0;
  std::atomic<double> queued_ms_ = 0;
  std::unique_ptr<RequestThreads> threads_;
};

TEST(Admission, RefusesWhatWouldWaitForMoreThanTheLimit) {
  Served served(1, 20);
  served.Enqueue(10);
  served.AwaitBegun(1);
  served.Enqueue(10);
  served.Enqueue(10);
  const size_t third = served.Enqueue(10);  // 20 ms wait before it
  const Refusal* refusal = served.RefusalOf(third);
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->reason, RefusalReason::kQueue);
  EXPECT_DOUBLE_EQ(refusal->before_ms, 20);
  EXPECT_GE(refusal->wait_ms, 20);  // and the rest of the one at work
  EXPECT_LE(refusal->wait_ms, 30);
  EXPECT_TRUE(refusal->retry);
  EXPECT_EQ(served.accepted(), 3);
  EXPECT_DOUBLE_EQ(served.queued_ms(), 20);
  served.End();
  EXPECT_EQ(served.begun(), (std::vector<size_t>{0, 1, 2}));
}

TEST(Admission, AcceptsAnythingWhileAThreadIsIdle) {
  Served served(2, 20);
  const size_t first = served.Enqueue(19);
  const size_t second = served.Enqueue(19);
  EXPECT_EQ(served.RefusalOf(first), nullptr);
  EXPECT_EQ(served.RefusalOf(second), nullptr);
}

TEST(Admission, RefusesWhatCannotBeInTime) {
  Served served(1, 1000);
  const size_t alone = served.Enqueue(30, 10.0);
  ASSERT_NE(served.RefusalOf(alone), nullptr);
  EXPECT_EQ(served.RefusalOf(alone)->reason, RefusalReason::kDeadline);
  EXPECT_FALSE(served.RefusalOf(alone)->retry);  // it would never be
  served.Enqueue(500);
  served.AwaitBegun(1);
  const size_t behind = served.Enqueue(30, 400.0);
  ASSERT_NE(served.RefusalOf(behind), nullptr);
  EXPECT_TRUE(served.RefusalOf(behind)->retry);
  const size_t patient = served.Enqueue(30, 10000.0);
  EXPECT_EQ(served.RefusalOf(patient), nullptr);
}

TEST(Admission, DoesNotServeWhatHasExpiredInTheQueue) {
  Served served(1, 1000);
  served.Enqueue(1);
  served.AwaitBegun(1);
  const size_t waiting = served.Enqueue(1, 40.0);
  EXPECT_EQ(served.RefusalOf(waiting), nullptr);
  std::this_thread::sleep_for(milliseconds(60));
  served.End();
  ASSERT_NE(served.RefusalOf(waiting), nullptr);
  EXPECT_EQ(served.RefusalOf(waiting)->reason, RefusalReason::kExpired);
  EXPECT_EQ(served.begun(), std::vector<size_t>{0});
}

TEST(Admission, ServesLargeRequestsBesideTheOthers) {
  Served served(1, 20);
  const size_t large = served.Enqueue(300);
  const size_t small = served.Enqueue(5);
  served.AwaitBegun(2);  // the large one does not occupy the thread
  EXPECT_TRUE(served.WasInBackground(large));
  EXPECT_FALSE(served.WasInBackground(small));
  const size_t waits = served.Enqueue(300);
  EXPECT_EQ(served.RefusalOf(waits), nullptr);
  const size_t refused = served.Enqueue(300);
  ASSERT_NE(served.RefusalOf(refused), nullptr);
  EXPECT_EQ(served.RefusalOf(served.Enqueue(5)), nullptr);
}

// Uses the calling thread's CPU for so long.
void Compute(double ms) {
  timespec begin{};
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  const auto passed_ms = [&] {
    return static_cast<double>(now.tv_sec - begin.tv_sec) * 1e3 +
           static_cast<double>(now.tv_nsec - begin.tv_nsec) * 1e-6;
  };
  do {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while (passed_ms() < ms);
}

// Serves requests of predicted 3 ms one at a time; returns how many of them in the background.
class OneAtATime {
 public:
  OneAtATime(double max_queue_cost, std::function<void()> serve) : serve_(std::move(serve)) {
    Admission hooks = Hooks(
        max_queue_cost, [this](const RequestTask&) { return Demand{3, timeout_ms}; },
        [this](const RequestTask&, const Refusal&) {
          ++refused;
          Notify();
        });
    const auto run = [this](const RequestTask&, bool in_background) {
      if (in_background) ++in_background_;
      serve_();
      return true;
    };
    hooks.served = [this](double, double) { Notify(); };
    threads_ = std::make_unique<RequestThreads>(1, run, std::move(hooks));
  }
  ~OneAtATime() { threads_.reset(); }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

  int Run(int count) {
    in_background_ = 0;
    for (int i = 0; i < count; ++i) {
      const int before = ended_;
      threads_->Enqueue(MakeTask(0));
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ > before; });
    }
    return in_background_;
  }

  std::optional<double> timeout_ms;
  std::atomic<int> refused = 0;

 private:
  void Notify() {
    const std::scoped_lock lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }

  std::function<void()> serve_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> ended_ = 0;
  std::atomic<int> in_background_ = 0;
  std::unique_ptr<RequestThreads> threads_;
};

TEST(Admission, WaitingForACpuMakesNoRequestLarge) {
  OneAtATime requests(10, [] {
    Compute(0.5);
    std::this_thread::sleep_for(milliseconds(15));  // as a thread that has no CPU
  });
  requests.Run(5);
  EXPECT_EQ(requests.Run(20), 0);
}

TEST(Admission, RequestsReturnFromTheBackgroundWithTheirCost) {
  double cost_ms = 20;
  OneAtATime requests(10, [&] { Compute(cost_ms); });
  requests.Run(20);
  EXPECT_EQ(requests.Run(5), 5);  // they take longer than predicted, and than max_queue_cost
  cost_ms = 0.5;
  requests.Run(150);
  EXPECT_EQ(requests.Run(5), 0);
}

TEST(Admission, ACorrectionThatRefusesEverythingIsTriedAgain) {
  double pause_ms = 30;
  OneAtATime requests(1000, [&] {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(pause_ms));
  });
  requests.Run(10);
  requests.timeout_ms = 15;
  requests.Run(5);
  EXPECT_EQ(requests.refused, 5);
  pause_ms = 1;
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(milliseconds(1100));
    requests.refused = 0;
    requests.Run(1);
    EXPECT_EQ(requests.refused, 0);
  }
  requests.timeout_ms = 2;  // less than predicted: there is nothing to try
  std::this_thread::sleep_for(milliseconds(1100));
  requests.Run(1);
  EXPECT_EQ(requests.refused, 1);
}

TEST(Admission, ThreadsPauseForALargeRequestWithoutCpuTime) {
  std::atomic<bool> stop = false;
  std::atomic<int64_t> paused_us = 0;
  Clock::time_point last_end = Clock::now();
  RequestThreads* all = nullptr;
  const auto measure = [](const RequestTask& task) {
    return Demand{GetNumber(task) == 0 ? 1e6 : 1.0, std::nullopt};
  };
  const auto serve = [&](const RequestTask& task, bool in_background) {
    if (in_background) {
      while (!stop) std::this_thread::sleep_for(milliseconds(50));
      return false;
    }
    paused_us +=
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - last_end).count();
    std::this_thread::sleep_for(milliseconds(5));
    last_end = Clock::now();
    if (!stop) all->Enqueue(task);  // so that there is always another one
    return false;
  };
  RequestThreads threads(1, serve, Hooks(1e5, measure, [](const auto&, const auto&) {}));
  all = &threads;
  threads.Enqueue(MakeTask(0));
  for (size_t i = 1; i < 4; ++i) threads.Enqueue(MakeTask(i));
  std::this_thread::sleep_for(milliseconds(500));
  stop = true;
  // A tenth of the time, but for the last pauses.
  EXPECT_GE(paused_us, 25'000);
}

TEST(CostScale, FollowsTheMeasurements) {
  CostScale scale;
  EXPECT_EQ(scale.value(), 1);
  for (int i = 0; i < 300; ++i) scale.Observe(2, 5);
  EXPECT_NEAR(scale.value(), 2.5, 0.05);
  for (int i = 0; i < 300; ++i) scale.Observe(2, 1);
  EXPECT_NEAR(scale.value(), 0.5, 0.05);
  scale.Observe(2, 1e6);  // one that was stopped meanwhile
  EXPECT_LT(scale.value(), 0.6);
}

TEST(DescribeRefusal, EndsWithTheHint) {
  EXPECT_EQ(DescribeRefusal({.reason = RefusalReason::kQueue,
                             .before_ms = 20.2,
                             .wait_ms = 12.3,
                             .limit_ms = 20,
                             .retry = true}),
            "unavailable: 21 ms of work wait before this request, and max_queue_cost is 20 ms; "
            "retry after 13 ms");
  EXPECT_EQ(DescribeRefusal({.reason = RefusalReason::kDeadline, .cost_ms = 30, .limit_ms = 5}),
            "unavailable: the response would take 30 ms, and the request's timeout is 5 ms");
}

}  // namespace
}  // namespace endcap::triton
