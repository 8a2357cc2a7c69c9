// Suppression by every target against the scalar implementation, whose results
// tests/python/core/test_nms.py holds to the reference; limits and bad arguments.

#include "endcap/nms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "error_matchers.h"
#include "simd_targets.h"

namespace endcap {
namespace {

using testing::Throws;
using Indices = std::vector<int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct BoxSet {
  std::vector<float> boxes;
  std::vector<float> scores;
  std::vector<int32_t> class_ids;

  void Add(float x1, float y1, float x2, float y2, float score, int32_t class_id = 0) {
    boxes.insert(boxes.end(), {x1, y1, x2, y2});
    scores.push_back(score);
    class_ids.push_back(class_id);
  }
};

void ExpectEqualImplementations(const BoxSet& crowd, double iou_threshold,
                                int64_t max_detections = -1) {
  for (const bool by_class : {false, true}) {
    const auto classes =
        by_class ? std::span<const int32_t>(crowd.class_ids) : std::span<const int32_t>();
    testing::CompareTargetsWithScalar(
        Stage::kNms,
        [&] { return Nms(crowd.boxes, crowd.scores, classes, {iou_threshold, max_detections}); },
        [&](const Indices& scalar, const Indices& simd, const std::string& target) {
          EXPECT_EQ(scalar, simd) << target << ", " << crowd.scores.size() << " boxes, threshold "
                                  << iou_threshold << (by_class ? ", by class" : "");
        });
  }
}

constexpr double kThresholds[] = {0.0, 1e-12, 5e-4, 0.1, 1.0 / 3.0, 0.5, 0.7, 0.95, 1.0};

// Sizes of boxes spread over `octaves` powers of two below `side`.
BoxSet Scattered(unsigned seed, size_t count, float span, float side, float octaves, int classes) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> unit(0.0F, 1.0F);
  std::uniform_int_distribution<int32_t> class_id(0, classes - 1);
  BoxSet crowd;
  for (size_t i = 0; i < count; ++i) {
    const float x = span * unit(random);
    const float y = span * unit(random);
    const float width = side * std::exp2(-octaves * unit(random));
    const float height = side * std::exp2(-octaves * unit(random));
    crowd.Add(x, y, x + width, y + height, unit(random), class_id(random));
  }
  return crowd;
}

TEST(NmsSimd, EqualsScalarAroundVectorLengths) {
  for (size_t count = 0; count <= 40; ++count) {
    const BoxSet crowd = Scattered(static_cast<unsigned>(count), count, 30.0F, 20.0F, 1.0F, 2);
    for (const double threshold : kThresholds) ExpectEqualImplementations(crowd, threshold);
  }
}

TEST(NmsSimd, EqualsScalarWhereTheGridIsUsed) {
  for (const double threshold : kThresholds) {
    ExpectEqualImplementations(Scattered(1, 1500, 600.0F, 60.0F, 1.0F, 3), threshold);
    ExpectEqualImplementations(Scattered(2, 1200, 600.0F, 600.0F, 8.0F, 2), threshold);
    ExpectEqualImplementations(Scattered(3, 1200, 20.0F, 60.0F, 2.0F, 2), threshold);
  }
}

// Whole-number corners: IoUs that equal the threshold, borders on borders of cells, and ties.
TEST(NmsSimd, EqualsScalarOnALattice) {
  std::mt19937 random(4);
  std::uniform_int_distribution<int> corner(0, 40);
  std::uniform_int_distribution<int> side(0, 8);
  std::uniform_int_distribution<int> level(-2, 2);
  BoxSet crowd;
  for (int i = 0; i < 1500; ++i) {
    const auto x = static_cast<float>(corner(random));
    const auto y = static_cast<float>(corner(random));
    crowd.Add(x, y, x + static_cast<float>(side(random)), y + static_cast<float>(side(random)),
              static_cast<float>(level(random)) * 0.25F, i % 2);
  }
  for (const double threshold : kThresholds) ExpectEqualImplementations(crowd, threshold);
}

// Pairs of 1000x1 boxes (or 1x1000) whose IoU lies within some float steps of the threshold, at any
// place relative to the cells.
TEST(NmsSimd, EqualsScalarAHairFromTheThreshold) {
  std::mt19937 random(12);
  std::uniform_real_distribution<float> place(0.0F, 65536.0F);
  for (const double threshold : {0.002, 0.1, 0.5, 0.7, 0.95}) {
    BoxSet wide;
    BoxSet tall;
    for (int i = 0; i < 600; ++i) {
      const float x = place(random);
      const auto y = static_cast<float>(2 * i);
      auto shift = static_cast<float>(1000.0 * (1.0 - threshold) / (1.0 + threshold));
      for (int step = i % 7; step > 0; --step) shift = std::nextafter(shift, 0.0F);
      wide.Add(x, y, x + 1000.0F, y + 1.0F, 0.9F);
      wide.Add(x + shift, y, x + shift + 1000.0F, y + 1.0F, 0.8F);
      tall.Add(y, x, y + 1.0F, x + 1000.0F, 0.9F);
      tall.Add(y, x + shift, y + 1.0F, x + shift + 1000.0F, 0.8F);
    }
    ExpectEqualImplementations(wide, threshold);
    ExpectEqualImplementations(tall, threshold);
  }
}

// Areas among the subnormal numbers, where roundings are no longer relative.
TEST(NmsSimd, EqualsScalarOnTinyBoxes) {
  for (const float unit : {1e-14F, 1e-18F, 1e-21F, 4e-23F}) {
    BoxSet crowd = Scattered(7, 800, 40.0F, 12.0F, 3.0F, 2);
    for (float& value : crowd.boxes) value *= unit;
    for (const double threshold : kThresholds) ExpectEqualImplementations(crowd, threshold);
  }
  // Long boxes with areas of 20.45 smallest numbers, rounded to 20: IoUs that ought to be below the
  // threshold come out above it.
  std::mt19937 random(13);
  std::uniform_real_distribution<float> place(0.0F, 2000.0F);
  std::uniform_real_distribution<float> part(1.0F, 1.09F);
  for (const float threshold : {0.1F, 0.5F, 0.7F}) {
    BoxSet crowd;
    for (int i = 0; i < 600; ++i) {
      const float x = place(random);
      const auto y = static_cast<float>(2 * i);
      const float shift = 1000.0F * (1.0F - threshold) / (1.0F + threshold) * part(random);
      crowd.Add(x, y, x + 1000.0F, y + 1.0F, 0.9F);
      crowd.Add(x + shift, y, x + shift + 1000.0F, y + 1.0F, 0.8F);
    }
    for (float& value : crowd.boxes) value *= 5.353e-24F;
    ExpectEqualImplementations(crowd, static_cast<double>(threshold));
  }
}

// Few boxes far away and few that cover everything: the grid is laid over the others.
TEST(NmsSimd, EqualsScalarWithOutliers) {
  BoxSet crowd = Scattered(8, 2500, 300.0F, 12.0F, 2.0F, 1);
  for (int i = 0; i < 40; ++i) {
    const auto step = static_cast<float>(i);
    crowd.Add(-step, -step, 300.0F + step, 310.0F, 0.01F * step, 0);
    crowd.Add(1e30F, 1e30F, 1e30F * (1.5F + step), 2e30F, 0.02F * step, 0);
    crowd.Add(-1e9F, step, 1e9F, step + 1.0F, 0.015F * step, 0);
    crowd.Add(step, -1e9F, step + 1.0F, 1e9F, 0.025F * step, 0);
  }
  for (const double threshold : {0.0, 0.1, 0.7, 0.95}) ExpectEqualImplementations(crowd, threshold);
}

TEST(NmsSimd, ClassIdsOfAnyValue) {
  BoxSet crowd = Scattered(9, 900, 100.0F, 40.0F, 1.0F, 3);
  const std::vector<int32_t> wild = {std::numeric_limits<int32_t>::min(), -1,
                                     std::numeric_limits<int32_t>::max()};
  for (int32_t& id : crowd.class_ids) id = wild[static_cast<size_t>(id)];
  ExpectEqualImplementations(crowd, 0.5);
  for (size_t i = 0; i < crowd.class_ids.size(); ++i) crowd.class_ids[i] = static_cast<int32_t>(i);
  ExpectEqualImplementations(crowd, 0.5);
}

TEST(Nms, RefusesWhatHasNoMeaning) {
  const std::vector<float> boxes(8, 0.0F);
  const std::vector<float> scores = {0.5F, kNan};
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
