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

// Requests are known by their addresses, and nobody looks into them.
std::array<char, 4000> places;

RequestThreads::Work MakeWork(size_t number) {
  return {nullptr, nullptr, reinterpret_cast<TRITONBACKEND_Request*>(&places.at(number))};
}
size_t GetNumber(const RequestThreads::Work& work) {
  return static_cast<size_t>(reinterpret_cast<const char*>(work.request) - places.data());
}

// A door that holds everybody until it is opened.
class Door {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    ++before_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void Open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void AwaitGuests(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return before_ == count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int before_ = 0;
};

TEST(RequestThreads, ServeEachRequestOnceFromManyCallers) {
  constexpr size_t kCallers = 4;
  constexpr size_t kEach = 1000;
  std::vector<std::atomic<int>> served(kCallers * kEach);
  {
    RequestThreads threads(3, [&](const RequestThreads::Work& work) { ++served[GetNumber(work)]; });
    std::vector<std::thread> callers;
    callers.reserve(kCallers);
    for (size_t c = 0; c < kCallers; ++c) {
      callers.emplace_back([&threads, c] {
        for (size_t i = 0; i < kEach; ++i) threads.Take(MakeWork(c * kEach + i));
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  for (const std::atomic<int>& times : served) EXPECT_EQ(times, 1);
}

TEST(RequestThreads, OneThreadKeepsTheOrder) {
  std::vector<size_t> order;
  {
    RequestThreads threads(
        1, [&](const RequestThreads::Work& work) { order.push_back(GetNumber(work)); });
    for (size_t i = 0; i < 200; ++i) threads.Take(MakeWork(i));
  }
  ASSERT_EQ(order.size(), 200U);
  for (size_t i = 0; i < 200; ++i) EXPECT_EQ(order[i], i);
}

TEST(RequestThreads, WorkAtTheSameTimeAndLetOneMoreEachWait) {
  Door door;
  RequestThreads threads(2, [&](const RequestThreads::Work&) { door.Pass(); });
  for (size_t i = 0; i < 2; ++i) threads.Take(MakeWork(i));
  door.AwaitGuests(2);
  for (size_t i = 2; i < 4; ++i) threads.Take(MakeWork(i));  // these wait
  auto fifth = std::async(std::launch::async, [&] { threads.Take(MakeWork(4)); });
  EXPECT_EQ(fifth.wait_for(milliseconds(50)), std::future_status::timeout);
  door.Open();
  fifth.wait();
}

TEST(RequestThreads, ARequestThatComesAloneFindsTheThreadThatWorkedLast) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::promise<void>* done = nullptr;
  RequestThreads threads(4, [&](const RequestThreads::Work&) {
    const std::scoped_lock lock(mutex);
    seen.insert(std::this_thread::get_id());
    done->set_value();
  });
  for (size_t i = 0; i < 20; ++i) {
    std::promise<void> served;
    {
      const std::scoped_lock lock(mutex);
      done = &served;
    }
    threads.Take(MakeWork(i));
    served.get_future().wait();
    std::this_thread::sleep_for(milliseconds(20));  // it is idle again
  }
  EXPECT_LT(seen.size(),
            3U);  // the first one's own, and one that became idle after it at the start
}

TEST(RequestThreads, EndAfterWhatTheyHaveTaken) {
  std::atomic<int> served = 0;
  {
    RequestThreads threads(2, [&](const RequestThreads::Work&) {
      std::this_thread::sleep_for(milliseconds(5));
      ++served;
    });
    for (size_t i = 0; i < 6; ++i) threads.Take(MakeWork(i));
  }
  EXPECT_EQ(served, 6);
}

}  // namespace
}  // namespace endcap::triton
