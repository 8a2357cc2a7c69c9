#include "endcap/nms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "error_matchers.h"

namespace endcap {
namespace {

using testing::Throws;
using Indices = std::vector<int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();

struct BoxSet {
  std::vector<float> boxes;
  std::vector<float> scores;
  std::vector<int32_t> class_ids;
};

BoxSet MakeBoxes(unsigned seed, size_t count, int classes, int score_levels) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> corner(0.0F, 100.0F);
  std::uniform_real_distribution<float> side(1.0F, 50.0F);
  std::uniform_int_distribution<int> level(0, score_levels);
  std::uniform_int_distribution<int> class_id(0, classes - 1);
  BoxSet crowd;
  for (size_t i = 0; i < count; ++i) {
    const float x = corner(random);
    const float y = corner(random);
    crowd.boxes.insert(crowd.boxes.end(), {x, y, x + side(random), y + side(random)});
    crowd.scores.push_back(static_cast<float>(level(random)) / static_cast<float>(score_levels));
    crowd.class_ids.push_back(class_id(random));
  }
  return crowd;
}

float Iou(const float* a, const float* b) {
  const float width = std::max(std::min(a[2], b[2]) - std::max(a[0], b[0]), 0.0F);
  const float height = std::max(std::min(a[3], b[3]) - std::max(a[1], b[1]), 0.0F);
  const float inter = width * height;
  return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter);
}

// Repeats: take the best box that is left, drop what it suppresses.
Indices Oracle(const BoxSet& crowd, double iou_threshold) {
  std::vector<bool> left(crowd.scores.size(), true);
  Indices kept;
  for (;;) {
    int64_t best = -1;
    for (size_t i = 0; i < left.size(); ++i) {
      if (left[i] && (best < 0 || crowd.scores[i] > crowd.scores[static_cast<size_t>(best)])) {
        best = static_cast<int64_t>(i);
      }
    }
    if (best < 0) return kept;
    kept.push_back(best);
    const auto b = static_cast<size_t>(best);
    left[b] = false;
    for (size_t i = 0; i < left.size(); ++i) {
      const bool same_class = crowd.class_ids.empty() || crowd.class_ids[i] == crowd.class_ids[b];
      const float iou = Iou(&crowd.boxes[4 * b], &crowd.boxes[4 * i]);
      if (same_class && static_cast<double>(iou) > iou_threshold) left[i] = false;
    }
  }
}

TEST(Nms, EqualsTheOracle) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    for (const int levels : {3, 100000}) {
      BoxSet crowd = MakeBoxes(seed, seed * 4, 1 + static_cast<int>(seed) % 4, levels);
      for (const double threshold : {0.0, 0.3, 0.5, 0.7, 1.0}) {
        EXPECT_EQ(Nms(crowd.boxes, crowd.scores, crowd.class_ids, {threshold, -1}),
                  Oracle(crowd, threshold));
      }
      crowd.class_ids.clear();
      EXPECT_EQ(Nms(crowd.boxes, crowd.scores, {}, {0.4, -1}), Oracle(crowd, 0.4));
    }
  }
}

TEST(Nms, MaxDetectionsCutsTheEndOnly) {
  const BoxSet crowd = MakeBoxes(5, 200, 2, 1000);
  const Indices all = Nms(crowd.boxes, crowd.scores, crowd.class_ids, {0.5, -1});
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{7}, std::ssize(all), int64_t{9999}}) {
    const Indices some = Nms(crowd.boxes, crowd.scores, crowd.class_ids, {0.5, count});
    ASSERT_EQ(std::ssize(some), std::min(count, std::ssize(all)));
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
  }
}

TEST(Nms, AHairPastTheThreshold) {
  for (const double iou : {0.1, 0.5, 0.9}) {
    const auto shift = static_cast<float>(100 * (1 - iou) / (1 + iou));
    const std::vector<float> boxes = {0, 0, 100, 100, shift, 0, 100 + shift, 100};
    const std::vector<float> scores = {0.9F, 0.8F};
    EXPECT_EQ(Nms(boxes, scores, {}, {iou - 1e-5, -1}), (Indices{0}));
    EXPECT_EQ(Nms(boxes, scores, {}, {iou + 1e-5, -1}), (Indices{0, 1}));
  }
}

TEST(Nms, TiesGoToTheLowerIndex) {
  const std::vector<float> boxes = {0, 0, 9, 9, 0, 0, 9, 9, 50, 50, 59, 59};
  EXPECT_EQ(Nms(boxes, std::vector<float>{0.5F, 0.5F, 0.5F}, {}, {}), (Indices{0, 2}));
}

TEST(Nms, ZeroAreaAndInfiniteBoxes) {
  const std::vector<float> boxes = {5, 5, 5, 5, 5, 5, 5, 5, -kInf, -kInf, kInf, kInf, 0, 0, 9, 9};
  const std::vector<float> scores = {0.9F, 0.8F, 0.7F, 0.6F};
  EXPECT_EQ(Nms(boxes, scores, {}, {0.5, -1}), (Indices{0, 1, 2, 3}));
}

TEST(Nms, Empty) { EXPECT_TRUE(Nms({}, {}, {}, {}).empty()); }

TEST(Nms, RefusesWhatHasNoMeaning) {
  const std::vector<float> boxes(8, 0.0F);
  const std::vector<float> scores = {0.5F, std::nanf("")};
  const std::vector<float> fine = {0.5F, 0.5F};
  const std::vector<int32_t> one_class = {1};
  const auto code = ErrorCode::kInvalidArgument;
  EXPECT_TRUE(Throws(code, "NaN", [&] { Nms(boxes, scores, {}, {}); }));
  EXPECT_TRUE(Throws(code, "class_ids", [&] { Nms(boxes, fine, one_class, {}); }));
  EXPECT_TRUE(Throws(code, "boxes", [&] { Nms(std::span(boxes).first(7), fine, {}, {}); }));
  EXPECT_TRUE(Throws(code, "iou_threshold", [&] { Nms(boxes, fine, {}, {-0.1, -1}); }));
  EXPECT_TRUE(Throws(code, "iou_threshold", [&] { Nms(boxes, fine, {}, {std::nan(""), -1}); }));
}

}  // namespace
}  // namespace endcap
