#include "common/score_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace endcap {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(ScoreKey, AscendsWhereScoresDescend) {
  const std::vector<float> descending = {kInf, 2.0F, 1.0F, 1e-45F, 0.0F, -1e-45F, -1.0F, -kInf};
  for (size_t i = 0; i + 1 < descending.size(); ++i) {
    EXPECT_LT(ScoreKey(descending[i], 9), ScoreKey(descending[i + 1], 0));
    EXPECT_EQ(KeyScore(ScoreKey(descending[i], 9)), descending[i]);
  }
  EXPECT_EQ(ScoreKey(-0.0F, 3), ScoreKey(0.0F, 3));
  EXPECT_LT(ScoreKey(0.5F, 3), ScoreKey(0.5F, 4));
  EXPECT_EQ(KeyPosition(ScoreKey(0.5F, 0xFFFFFFFFU)), 0xFFFFFFFFU);
}

TEST(SortKeys, SortsAsTheStandardLibrary) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> spare;
  for (const size_t count : {0, 1, 2, 127, 128, 129, 4095, 4096, 5000}) {
    for (const uint64_t mask :
         {~uint64_t{0}, uint64_t{0xFFFF00000FFF}, uint64_t{0xFFE} << 52, uint64_t{0}}) {
      std::vector<uint64_t> keys(count);
      for (uint64_t& key : keys) key = random() & mask;
      std::vector<uint64_t> expected = keys;
      std::sort(expected.begin(), expected.end());
      SortKeys(keys, spare);
      EXPECT_EQ(keys, expected);
    }
  }
}

// Candidates are found in the order of their positions; equal scores must stay in it.
TEST(SortKeys, SortsScoresOfAscendingPositions) {
  std::mt19937 random(2);
  std::uniform_int_distribution<int> level(0, 40);
  std::vector<uint64_t> spare;
  for (const uint32_t count : {128U, 640U, 5000U}) {
    std::vector<uint64_t> keys;
    for (uint32_t position = 0; position < count; ++position) {
      keys.push_back(ScoreKey(static_cast<float>(level(random) - 20) / 16.0F, 3 * position));
    }
    std::vector<uint64_t> expected = keys;
    std::sort(expected.begin(), expected.end());
    SortKeys(keys, spare);
    EXPECT_EQ(keys, expected);
  }
}

TEST(FloatBelow, DecidesAsTheDoubleDoes) {
  for (const double limit :
       {0.0, 1e-300, 1e-45, 0.001, 0.25, 1.0 / 3.0, 0.5, 0.7, 0.9999999, 1.0}) {
    const float below = FloatBelow(limit);
    const auto near = static_cast<float>(limit);
    for (const float x :
         {std::nextafter(near, -kInf), near, std::nextafter(near, kInf), kInf, -kInf}) {
      EXPECT_EQ(x > below, static_cast<double>(x) > limit) << x << " and " << limit;
    }
  }
}

}  // namespace
}  // namespace endcap
