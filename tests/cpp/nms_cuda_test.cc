// NMS by the GPU's kernels: the same boxes, in the same order, as Nms.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "common/score_order.h"
#include "cuda/launch.h"
#include "endcap/nms.h"
#include "nms/cuda/launch.h"
#include "on_device.h"

namespace endcap {
namespace {

using testing::OnDevice;

struct Boxes {
  std::vector<float> xyxy, scores;
  std::vector<int32_t> class_ids;  // empty: one class
};

// Boxes that crowd around `crowds` places, with scores on a grid.
Boxes RandomBoxes(uint32_t seed, size_t count, int crowds, int classes) {
  std::mt19937 random(seed);
  const auto uniform = [&](float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random);
  };
  Boxes boxes;
  for (size_t i = 0; i < count; ++i) {
    const float place = std::floor(uniform(0.0F, static_cast<float>(crowds))) * 40.0F;
    const float x = place + uniform(-6.0F, 6.0F);
    const float y = std::fmod(place * 7.0F, 1000.0F) + uniform(-6.0F, 6.0F);
    boxes.xyxy.insert(boxes.xyxy.end(),
                      {x, y, x + uniform(10.0F, 40.0F), y + uniform(10.0F, 40.0F)});
    boxes.scores.push_back(std::floor(uniform(-50.0F, 500.0F)) / 500.0F);
    if (classes > 0) boxes.class_ids.push_back(static_cast<int32_t>(random() % 5) * 1000 - 2000);
  }
  return boxes;
}

struct Kept {
  int64_t count;
  std::vector<int64_t> indices;
};

Kept RunKernels(const Boxes& boxes, const NmsOptions& options) {
  const OnDevice xyxy(boxes.xyxy);
  const OnDevice scores(boxes.scores);
  const OnDevice classes(boxes.class_ids);
  const OnDevice kept(std::vector<int64_t>(boxes.scores.size(), -7));
  const OnDevice kept_count(std::vector<int64_t>{-7});
  const auto count = static_cast<int64_t>(boxes.scores.size());
  const int64_t most = options.max_detections < 0 ? count : options.max_detections;
  LaunchNms(
      {xyxy.get(), scores.get(), boxes.class_ids.empty() ? nullptr : classes.get(), count,
       std::min(most, count), FloatBelow(options.iou_threshold), kept.get(), kept_count.get()},
      nullptr);
  Kept result = {kept_count.Read(1)[0], {}};
  if (result.count > 0) result.indices = kept.Read(static_cast<size_t>(result.count));
  return result;
}

std::vector<int64_t> ExpectSameAsCpu(const Boxes& boxes, const NmsOptions& options) {
  const auto expected = Nms(boxes.xyxy, boxes.scores, boxes.class_ids, options);
  const Kept actual = RunKernels(boxes, options);
  EXPECT_EQ(actual.count, std::ssize(expected));
  EXPECT_EQ(actual.indices, expected);
  return expected;
}

TEST(NmsCuda, AnyNumberOfBoxes) {
  for (const size_t count : {0, 1, 2, 31, 32, 33, 255, 256, 1023, 1024, 1025, 3000}) {
    for (const int classes : {0, 5}) {
      ExpectSameAsCpu(RandomBoxes(static_cast<uint32_t>(count), count, 20, classes), {0.5, -1});
    }
  }
}

TEST(NmsCuda, ManyBoxes) {
  EXPECT_GT(ExpectSameAsCpu(RandomBoxes(1, 12000, 3000, 0), {0.6, -1}).size(), 4000U);
}

TEST(NmsCuda, EveryThreshold) {
  const Boxes boxes = RandomBoxes(2, 700, 30, 5);
  for (const double threshold : {0.0, 1e-60, 0.1, 0.3, 0.45, 0.7, 0.99, 1.0}) {
    ExpectSameAsCpu(boxes, {threshold, -1});
  }
}

TEST(NmsCuda, StopsAtMaxDetections) {
  const Boxes boxes = RandomBoxes(3, 5000, 2500, 0);
  for (const int64_t most : {0, 1, 31, 32, 33, 700, 1024, 4999, 9999}) {
    ExpectSameAsCpu(boxes, {0.5, most});
  }
}

TEST(NmsCuda, TiesGoToTheLowerIndex) {
  Boxes boxes;
  for (int i = 0; i < 2100; ++i) {
    boxes.xyxy.insert(boxes.xyxy.end(), {1, 1, 5, 5});
    boxes.scores.push_back(0.5F);
  }
  EXPECT_EQ(ExpectSameAsCpu(boxes, {0.5, -1}), std::vector<int64_t>{0});
  const std::vector<int64_t> all = ExpectSameAsCpu(boxes, {1.0, -1});
  ASSERT_EQ(all.size(), 2100U);
  EXPECT_TRUE(std::ranges::is_sorted(all));
}

// Each box suppresses the next, which would have suppressed the one after it.
TEST(NmsCuda, Chains) {
  Boxes boxes;
  for (int i = 0; i < 1500; ++i) {
    const auto x = static_cast<float>(4 * i);
    boxes.xyxy.insert(boxes.xyxy.end(), {x, 0, x + 10, 10});
    boxes.scores.push_back(1.0F - static_cast<float>(i) * 0x1p-12F);
  }
  EXPECT_EQ(ExpectSameAsCpu(boxes, {0.4, -1}).size(), 750U);
}

TEST(NmsCuda, BoxesWithoutAnArea) {
  std::mt19937 random(4);
  const std::vector<float> edges = {0,
                                    -0.0F,
                                    1,
                                    2,
                                    1e-30F,
                                    3e38F,
                                    -3e38F,
                                    1e19F,
                                    std::numeric_limits<float>::infinity(),
                                    std::numeric_limits<float>::quiet_NaN()};
  Boxes boxes;
  for (int i = 0; i < 900; ++i) {
    for (int k = 0; k < 4; ++k) boxes.xyxy.push_back(edges[random() % edges.size()]);
    boxes.scores.push_back(static_cast<float>(random() % 3));
  }
  for (const double threshold : {0.0, 0.5}) ExpectSameAsCpu(boxes, {threshold, -1});
}

TEST(NmsCuda, InfiniteAndNegativeScores) {
  Boxes boxes = RandomBoxes(5, 300, 10, 0);
  boxes.scores[20] = std::numeric_limits<float>::infinity();
  boxes.scores[21] = -std::numeric_limits<float>::infinity();
  boxes.scores[22] = -0.0F;
  boxes.scores[23] = 0.0F;
  boxes.scores[24] = -3e38F;
  EXPECT_EQ(ExpectSameAsCpu(boxes, {0.5, -1}).front(), 20);
}

TEST(NmsCuda, ANanScoreIsToldByTheCount) {
  Boxes boxes = RandomBoxes(6, 1500, 10, 0);
  boxes.scores[1400] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(RunKernels(boxes, {0.5, -1}).count, -1);
}

}  // namespace
}  // namespace endcap
