#include "triton_util/request_threads.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace endcap::triton {
namespace {

using std::chrono::milliseconds;

// Requests are identified by their addresses, which nothing dereferences.
std::array<char, 4000> addresses;

RequestTask MakeTask(size_t number) {
  return {nullptr, nullptr, reinterpret_cast<TRITONBACKEND_Request*>(&addresses.at(number))};
}
size_t GetNumber(const RequestTask& task) {
  return static_cast<size_t>(reinterpret_cast<const char*>(task.request) - addresses.data());
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

TEST(RequestThreads, ServesEachRequestOnceFromManyCallers) {
  constexpr size_t kCallers = 4;
  constexpr size_t kEach = 1000;
  std::vector<std::atomic<int>> served(kCallers * kEach);
  {
    RequestThreads threads(
        3, [&](const RequestTask& task, bool) { return ++served[GetNumber(task)] == 1; });
    std::vector<std::thread> callers;
    callers.reserve(kCallers);
    for (size_t c = 0; c < kCallers; ++c) {
      callers.emplace_back([&threads, c] {
        for (size_t i = 0; i < kEach; ++i) threads.Enqueue(MakeTask(c * kEach + i));
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  for (const std::atomic<int>& times : served) EXPECT_EQ(times, 1);
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

}  // namespace
}  // namespace endcap::triton
