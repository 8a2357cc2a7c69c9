#include "triton_util/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

namespace endcap::triton {
namespace {

using std::chrono::milliseconds;

Worker::PreparedTask Prepare(Worker::Task task) {
  Worker::PreparedTask prepared;
  prepared.push_back(std::move(task));
  return prepared;
}

TEST(Worker, RunsTasksOfManyThreadsOneByOneInOrder) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 500;
  std::vector<int> seen;  // without a lock, because the worker is one thread
  {
    Worker worker([] {}, milliseconds(1000));
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&worker, &seen, t] {
        for (int i = 0; i < kTasks; ++i) {
          worker.Post(Prepare([&seen, t, i] { seen.push_back(t * kTasks + i); }));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  ASSERT_EQ(seen.size(), size_t{kThreads} * kTasks);
  std::vector<int> last(kThreads, -1);
  for (const int task : seen) {  // tasks of one thread keep their order
    EXPECT_GT(task, last[static_cast<size_t>(task / kTasks)]);
    last[static_cast<size_t>(task / kTasks)] = task;
  }
}

TEST(Worker, TicksOnlyWhileTickingIsOn) {
  std::atomic<int> ticks = 0;
  Worker worker([&ticks] { ++ticks; }, milliseconds(1));
  const auto run = [&worker](Worker::Task task) {
    std::promise<void> done;
    worker.Post(Prepare([&] {
      task();
      done.set_value();
    }));
    done.get_future().wait();
  };
  run([] {});
  EXPECT_EQ(ticks, 0);
  run([&worker] { worker.SetTicking(true); });
  while (ticks < 3) std::this_thread::yield();
  run([&worker] { worker.SetTicking(false); });
  const int after = ticks;
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(ticks, after);
}

}  // namespace
}  // namespace endcap::triton
