// Rotated boxes by every target against the scalar implementation, whose results
// tests/python/core/test_nms_rotated.py holds to the reference; IoUs that it leaves out.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "endcap/nms.h"
#include "error_matchers.h"
#include "nms/rotated_methods.h"
#include "simd_targets.h"

namespace endcap {
namespace {

using Indices = std::vector<int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr RotatedNms kMethods[] = {RotatedNms::kPolygon, RotatedNms::kProbiou,
                                   RotatedNms::kProbiouFast};
constexpr double kThresholds[] = {0.0, 1e-12, 5e-4, 0.1, 0.45, 0.7, 0.95, 0.9994, 1.0};

struct BoxSet {
  std::vector<float> boxes;
  std::vector<float> scores;
  std::vector<int32_t> class_ids;

  size_t size() const { return scores.size(); }
  void Add(float cx, float cy, float w, float h, float angle, float score, int32_t class_id = 0) {
    boxes.insert(boxes.end(), {cx, cy, w, h, angle});
    scores.push_back(score);
    class_ids.push_back(class_id);
  }
};

struct Random {
  std::mt19937 bits;
  float Between(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(bits);
  }
  int Below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(bits); }
};

void ExpectEqualImplementations(const BoxSet& crowd, double iou_threshold,
                                int64_t max_detections = -1) {
  for (const RotatedNms method : kMethods) {
    testing::CompareTargetsWithScalar(
        Stage::kNms,
        [&] {
          return NmsRotated(crowd.boxes, crowd.scores, crowd.class_ids,
                            {iou_threshold, max_detections, method});
        },
        [&](const Indices& scalar, const Indices& simd, const std::string& target) {
          EXPECT_EQ(scalar, simd) << target << ", " << crowd.size() << " boxes, threshold "
                                  << iou_threshold << ", method " << static_cast<int>(method);
        });
  }
}

// Sides spread over `octaves` powers of two below `side`.
BoxSet Scattered(unsigned seed, int count, float span, float side, float octaves, int classes) {
  Random random{std::mt19937(seed)};
  BoxSet crowd;
  for (int i = 0; i < count; ++i) {
    crowd.Add(random.Between(0, span), random.Between(0, span),
              side * std::exp2(-random.Between(0, octaves)),
              side * std::exp2(-random.Between(0, octaves)), random.Between(-4, 4),
              random.Between(0, 1), random.Below(classes));
  }
  return crowd;
}

TEST(RotatedNmsSimd, EqualsScalarOnCrowds) {
  for (const double threshold : kThresholds) {
    ExpectEqualImplementations(Scattered(1, 600, 400.0F, 60.0F, 2.0F, 3), threshold);
    ExpectEqualImplementations(Scattered(2, 600, 400.0F, 400.0F, 8.0F, 2), threshold);
    ExpectEqualImplementations(Scattered(3, 600, 0.4F, 0.1F, 2.0F, 2), threshold);
  }
}

// Boxes on few places, of few sizes and angles: equal boxes, crosses and touching sides.
TEST(RotatedNmsSimd, EqualsScalarOnALattice) {
  Random random{std::mt19937(4)};
  const float quarter = std::acos(0.0F) / 2;
  BoxSet crowd;
  for (int i = 0; i < 600; ++i) {
    const auto whole = [&](int count) { return static_cast<float>(random.Below(count)); };
    crowd.Add(whole(20), whole(20), whole(6), whole(6), (whole(9) - 4) * quarter, whole(4),
              random.Below(2));
  }
  for (const double threshold : kThresholds) ExpectEqualImplementations(crowd, threshold);
}

// Two boxes of a class of their own, so that each pair is decided by its own IoU.
struct Pairs {
  BoxSet crowd;
  int32_t count = 0;

  void Add(const std::array<float, 5>& a, const std::array<float, 5>& b) {
    crowd.Add(a[0], a[1], a[2], a[3], a[4], 0.9F, count);
    crowd.Add(b[0], b[1], b[2], b[3], b[4], 0.8F, count);
    ++count;
  }
};

// Where the bounds of a pair are its IoU, and the IoU is about the threshold: axis-aligned boxes of
// one shape side by side, and of different sizes one within the other.
TEST(RotatedNmsSimd, EqualsScalarWhereTheBoundsAreTight) {
  Random random{std::mt19937(5)};
  for (const double threshold : {0.002, 0.1, 0.45, 0.7, 0.95, 0.99}) {
    const auto t = static_cast<float>(threshold);
    const float distance = -std::log(1.0F - (1.0F - t) * (1.0F - t));  // of Bhattacharyya
    Pairs pairs;
    for (int i = 0; i < 500; ++i) {
      const float w = random.Between(5, 200);
      const float h = w * std::exp2(random.Between(-4.9F, 4.9F));
      const float x = random.Between(0, 4096);
      const float near = 1.0F + random.Between(-1, 1) * std::exp2(random.Between(-24, -6));
      const float shift = near * w * (1.0F - t) / (1.0F + t);
      pairs.Add({x, 9, w, h, 0}, {x + shift, 9, w, h, 0});
      const float apart = near * w * std::sqrt(distance * 2.0F / 3.0F);
      pairs.Add({x, 9, w, h, 0}, {x + apart, 9, w, h, 0});
      pairs.Add({9, x, h, w, 0}, {9, x + apart, h, w, 0});
      const float turn = random.Between(-3, 3);
      pairs.Add({x, 9, w, h, turn}, {x, 9, near * t * w, h, turn});
      const float ratio = std::exp(distance) + std::sqrt(std::exp(2.0F * distance) - 1.0F);
      pairs.Add({x, 9, w, h, turn}, {x, 9, near * ratio * w, near * ratio * h, turn});
      pairs.Add({x, 9, w, h, turn},
                {x, 9, near * std::sqrt(ratio) * w, h * std::sqrt(ratio), turn});
    }
    ExpectEqualImplementations(pairs.crowd, threshold);
  }
}

// At the ends of the range of shapes whose bounds are trusted, and beyond: thin, tiny, huge.
TEST(RotatedNmsSimd, EqualsScalarOnShapesOfAllKinds) {
  Random random{std::mt19937(6)};
  for (const float scale : {1e-30F, 1e-10F, 1e-3F, 0.1F, 1.0F, 1e3F, 1e12F, 1e30F}) {
    Pairs pairs;
    for (int i = 0; i < 800; ++i) {
      const float w = scale * std::exp2(random.Between(-8, 8));
      const float thin = std::exp2(random.Between(-11, 0));
      const float turn = random.Between(-2, 2);
      const float step = w * random.Between(0, 0.5F);
      pairs.Add({0, 0, w, thin * w, turn},
                {step * std::cos(turn), step * std::sin(turn), w * random.Between(0.5F, 2),
                 thin * w * random.Between(0.5F, 2), turn + thin * random.Between(-1, 1)});
    }
    for (const double threshold : kThresholds) ExpectEqualImplementations(pairs.crowd, threshold);
  }
}

// The quick decisions of a single pair against the IoU itself.
template <typename Method>
void ExpectExceedsIsIouAbove(const BoxSet& crowd) {
  for (const double threshold : kThresholds) {
    const auto limit = Method::MakeLimit(threshold);
    for (size_t i = 0; i + 1 < crowd.size(); ++i) {
      const auto a = Method::Prepare(&crowd.boxes[5 * i]);
      const auto b = Method::Prepare(&crowd.boxes[5 * i + 5]);
      const float iou = Method::Iou(a, b);
      ASSERT_EQ(Method::Exceeds(a, b, limit), static_cast<double>(iou) > threshold)
          << "pair " << i << ", IoU " << iou << ", threshold " << threshold;
    }
  }
}

TEST(RotatedNmsSimd, QuickDecisionsOfAPairAreItsIou) {
  for (const float side : {1e-3F, 1.0F, 80.0F}) {
    for (const float spread : {0.1F, 0.5F, 2.0F}) {
      const BoxSet crowd = Scattered(10, 5000, side * spread, side, 3.0F, 1);
      ExpectExceedsIsIouAbove<PolygonMethod>(crowd);
      ExpectExceedsIsIouAbove<ProbiouMethod>(crowd);
    }
  }
}

using Box = std::array<float, 5>;

float Iou(const Box& a, const Box& b, RotatedNms method = RotatedNms::kPolygon) {
  float iou = 0.0F;
  RotatedIou(a, b, method, {&iou, 1});
  return iou;
}

TEST(RotatedIou, FarFromTheOriginNothingIsLost) {
  const Box a = {0.5F, 1.25F, 3, 1.5F, 0.4F};
  const Box b = {1.75F, 0.5F, 2, 2.5F, -1.1F};
  const auto moved = [](Box box) {
    box[0] += 0x1p20F;
    box[1] -= 0x1p19F;
    return box;
  };
  for (const RotatedNms method : kMethods) {
    EXPECT_GT(Iou(a, b, method), 0.1F);
    EXPECT_EQ(Iou(a, b, method), Iou(moved(a), moved(b), method));
  }
}

TEST(RotatedIou, BoxesThatAreNone) {
  const Box box = {0, 0, 2, 2, 0};
  for (const Box& empty : {Box{0, 0, 0, 2, 0}, Box{0, 0, -2, 2, 0}, Box{0, 0, -2, -2, 1}}) {
    EXPECT_EQ(Iou(box, empty), 0.0F);
    EXPECT_TRUE(std::isnan(Iou(empty, empty)));
  }
  for (size_t i = 0; i < 5; ++i) {
    for (const float wild : {kNan, kInf, -kInf}) {
      Box broken = box;
      broken[i] = wild;
      EXPECT_TRUE(std::isnan(Iou(box, broken))) << "number " << i << " is " << wild;
    }
  }
}

TEST(RotatedIou, ProbiouWithoutAnAreaIsThatOfItsEpsilons) {
  // Two points at one place: ln(0 / epsilon + epsilon) / 2 is clipped to epsilon.
  const float greatest = 1.0F - std::sqrt(1.0F - std::exp(-1e-7F) + 1e-7F);
  EXPECT_EQ(Iou({3, 4, 0, 0, 0}, {3, 4, 0, 0, 1}, RotatedNms::kProbiou), greatest);
  EXPECT_EQ(Iou({3, 4, 0, 0, 0}, {300, 4, 0, 0, 1}, RotatedNms::kProbiou), greatest);
  // The squares of the sizes count.
  EXPECT_EQ(Iou({3, 4, -9, 5, 1}, {4, 4, 9, 5, 1}, RotatedNms::kProbiou),
            Iou({3, 4, 9, 5, 1}, {4, 4, 9, 5, 1}, RotatedNms::kProbiou));
}

}  // namespace
}  // namespace endcap
