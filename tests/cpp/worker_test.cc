#include "triton_util/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "triton_util/in_flight.h"

namespace endcap::triton {
namespace {

using std::chrono::milliseconds;

Worker::Ready MakeReady(Worker::Task task) {
  Worker::Ready ready;
  ready.push_back(std::move(task));
  return ready;
}

TEST(Worker, RunsTasksOfManyThreadsOneAfterTheOther) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 500;
  std::vector<int> seen;  // without a lock: the worker is one thread
  {
    Worker worker([] {}, milliseconds(1000));
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&worker, &seen, t] {
        for (int i = 0; i < kTasks; ++i) {
          worker.Post(MakeReady([&seen, t, i] { seen.push_back(t * kTasks + i); }));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  ASSERT_EQ(seen.size(), size_t{kThreads} * kTasks);
  std::vector<int> last(kThreads, -1);
  for (const int task : seen) {  // those of one thread in their order
    EXPECT_GT(task, last[static_cast<size_t>(task / kTasks)]);
    last[static_cast<size_t>(task / kTasks)] = task;
  }
}

TEST(Worker, TicksWhileItWatchesAndOnlyThen) {
  std::atomic<int> ticks = 0;
  Worker worker([&ticks] { ++ticks; }, milliseconds(1));
  const auto run = [&worker](Worker::Task task) {
    std::promise<void> done;
    worker.Post(MakeReady([&] {
      task();
      done.set_value();
    }));
    done.get_future().wait();
  };
  run([] {});
  EXPECT_EQ(ticks, 0);
  run([&worker] { worker.Watch(true); });
  while (ticks < 3) std::this_thread::yield();
  run([&worker] { worker.Watch(false); });
  const int after = ticks;
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(ticks, after);
}

TEST(InFlight, WaitsForRoomAndLetsALargeOneInAlone) {
  InFlight in_flight;
  in_flight.Enter(5, 3);  // more than the limit, but nothing else is under way
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

TEST(InFlight, ASmallOneDoesNotOvertakeALargeOne) {
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
