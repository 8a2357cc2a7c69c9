#include "triton_util/cost_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace endcap::triton {
namespace {

std::vector<double> PopCosts(CostQueue& queue, size_t count) {
  std::vector<double> costs;
  for (size_t i = 0; i < count; ++i) costs.push_back(queue.Pop().cost);
  return costs;
}

void PushMany(CostQueue& queue, double cost, int count) {
  for (int i = 0; i < count; ++i) queue.Push({}, cost, 0);
}

TEST(CostQueue, KeepsTheOrderOfRequestsOfSimilarCost) {
  CostQueue queue;
  for (const double cost : {5.0, 8.0, 6.0, 15.0}) queue.Push({}, cost, 0);
  EXPECT_EQ(PopCosts(queue, 4), (std::vector<double>{5, 8, 6, 15}));
  EXPECT_TRUE(queue.empty());
}

TEST(CostQueue, CheapRequestsPassExpensiveOnesThatWait) {
  CostQueue queue;
  PushMany(queue, 100, 3);
  queue.Push({}, 2, 0);
  // The first one is due at the same time.
  EXPECT_EQ(PopCosts(queue, 4), (std::vector<double>{2, 100, 100, 100}));
}

TEST(CostQueue, GivesWaitingClassesTheSameShareOfTheWork) {
  CostQueue queue;
  PushMany(queue, 2, 300);
  PushMany(queue, 20, 30);
  PushMany(queue, 100, 6);
  double cheap = 0;
  double middle = 0;
  double expensive = 0;
  while (cheap + middle + expensive < 900) {
    const double cost = queue.Pop().cost;
    (cost < 4 ? cheap : cost < 64 ? middle : expensive) += cost;
  }
  EXPECT_NEAR(cheap, 300, 100);
  EXPECT_NEAR(middle, 300, 100);
  EXPECT_NEAR(expensive, 300, 100);
}

TEST(CostQueue, AnExpensiveRequestIsServedWhileCheapOnesKeepComing) {
  CostQueue queue;
  PushMany(queue, 2, 5);
  queue.Push({}, 20, 0);
  queue.Push({}, 20, 0);
  int cheap_before = 0;
  for (int expensive = 0; expensive < 2;) {
    if (queue.Pop().cost > 4) {
      ++expensive;
    } else {
      ++cheap_before;
      queue.Push({}, 2, 0);
    }
  }
  EXPECT_LE(cheap_before, 12);
}

TEST(CostQueue, AClassOwesNothingForWhatItWasServedAlone) {
  CostQueue queue;
  for (int i = 0; i < 50; ++i) {
    queue.Push({}, 100, 0);
    queue.Pop();
  }
  PushMany(queue, 2, 60);
  queue.Push({}, 100, 0);
  // It is due at once: only requests that were due at the same time are before it.
  EXPECT_EQ(PopCosts(queue, 2), (std::vector<double>{2, 100}));
}

TEST(CostQueue, CostBeforeIsThatOfTheRequestsServedEarlier) {
  CostQueue queue;
  EXPECT_EQ(queue.CostBefore(5), 0);
  PushMany(queue, 5, 4);
  EXPECT_DOUBLE_EQ(queue.CostBefore(5), 20);
  // Another class is due at once, after the one request that is due, too.
  EXPECT_DOUBLE_EQ(queue.CostBefore(100), 5);
  EXPECT_DOUBLE_EQ(queue.cost(), 20);
  EXPECT_EQ(queue.size(), 4U);
}

TEST(CostQueue, CostBeforeExpectsOtherClassesToGoOn) {
  CostQueue queue;
  PushMany(queue, 2, 1);
  PushMany(queue, 20, 3);
  // Three of its own class, and as much of the other one, of which a single request waits by now.
  EXPECT_DOUBLE_EQ(queue.CostBefore(20), 120);
}

TEST(CostQueue, KeepsDeadlines) {
  CostQueue queue;
  queue.Push({}, 5, 0);
  queue.Push({}, 5, 1234.5);
  EXPECT_EQ(queue.Pop().deadline_ms, 0);
  EXPECT_EQ(queue.Pop().deadline_ms, 1234.5);
}

}  // namespace
}  // namespace endcap::triton
