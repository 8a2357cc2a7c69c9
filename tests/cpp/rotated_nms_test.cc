#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "endcap/nms.h"
#include "error_matchers.h"

namespace endcap {
namespace {

using testing::Throws;
using Indices = std::vector<int64_t>;
using Box = std::array<float, 5>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kPi = std::numbers::pi_v<float>;
constexpr RotatedNms kMethods[] = {RotatedNms::kPolygon, RotatedNms::kProbiou,
                                   RotatedNms::kProbiouFast};

float Iou(const Box& a, const Box& b, RotatedNms method = RotatedNms::kPolygon) {
  float iou = 0.0F;
  RotatedIou(a, b, method, {&iou, 1});
  return iou;
}

Indices Suppress(const std::vector<Box>& boxes, const std::vector<float>& scores,
                 const RotatedNmsOptions& options, const std::vector<int32_t>& class_ids = {}) {
  std::vector<float> numbers;
  for (const Box& box : boxes) numbers.insert(numbers.end(), box.begin(), box.end());
  return NmsRotated(numbers, scores, class_ids, options);
}

TEST(RotatedIou, AxisAlignedBoxesAreExact) {
  EXPECT_EQ(Iou({1, 1, 2, 2, 0}, {2, 1, 2, 2, 0}), 1.0F / 3.0F);
  EXPECT_EQ(Iou({1, 1, 2, 2, 0}, {1, 1, 2, 1, 0}), 0.5F);  // one within the other
  EXPECT_EQ(Iou({1, 1, 2, 2, 0}, {3, 1, 2, 2, 0}), 0.0F);  // touching sides
  EXPECT_EQ(Iou({1, 1, 2, 2, 0}, {3, 3, 2, 2, 0}), 0.0F);  // touching corners
  EXPECT_EQ(Iou({1, 1, 2, 2, 0}, {90, 1, 2, 2, 0}), 0.0F);
  EXPECT_EQ(Iou({0, 0, 4, 1, 0}, {0, 0, 1, 4, 0}), 1.0F / 7.0F);
}

TEST(RotatedIou, RotatedBoxes) {
  // A unit square and the same rotated by 45 degrees share an octagon of 2 (sqrt(2) - 1).
  EXPECT_FLOAT_EQ(Iou({0, 0, 1, 1, 0}, {0, 0, 1, 1, kPi / 4}), std::sqrt(0.5F));
  // A cross of long boxes at 45 degrees shares a square.
  EXPECT_FLOAT_EQ(Iou({7, 5, 10, 1, kPi / 4}, {7, 5, 10, 1, -kPi / 4}), 1.0F / 19.0F);
  // A corner cut off: the triangle of the square [0, 1]^2 beyond x + y = 1.5.
  const float side = std::sqrt(2.0F);
  EXPECT_FLOAT_EQ(Iou({0.5F, 0.5F, 1, 1, 0}, {1.25F, 1.25F, side, 4, kPi / 4}),
                  0.125F / (1.0F + 4.0F * side - 0.125F));
  // Rotated boxes whose axis-aligned bounding boxes overlap, and which do not meet.
  EXPECT_EQ(Iou({0, 0, 10, 1, kPi / 4}, {3, 0, 10, 1, kPi / 4}), 0.0F);
}

TEST(RotatedIou, TheWidthLiesAlongTheAngleTowardsY) {
  const Box along = {0, 0, 10, 1, kPi / 6};
  const Box at_its_end = {4 * std::cos(kPi / 6), 4 * std::sin(kPi / 6), 1, 1, 0};
  EXPECT_GT(Iou(along, at_its_end), 0.05F);
  EXPECT_EQ(Iou({0, 0, 10, 1, -kPi / 6}, at_its_end), 0.0F);
}

TEST(RotatedIou, OneBoxInManyWordsIsTheSame) {
  const Box box = {100, 50, 30, 12, 0.3F};
  for (const Box& same :
       {box, Box{100, 50, 30, 12, 0.3F + kPi}, Box{100, 50, 30, 12, 0.3F - kPi},
        Box{100, 50, 12, 30, 0.3F + kPi / 2}, Box{100, 50, 12, 30, 0.3F - kPi / 2},
        Box{100, 50, 30, 12, 0.3F + 64 * kPi}}) {
    EXPECT_NEAR(Iou(box, same), 1.0F, 2e-5F);  // the angles are rounded, the last to 8e-6
    EXPECT_GT(Iou(box, same, RotatedNms::kProbiou), 0.995F);
  }
  EXPECT_EQ(Iou(box, box), 1.0F);
  EXPECT_EQ(Iou({100, 50, 30, 12, 1e6F}, {100, 50, 30, 12, 1e6F}), 1.0F);
}

TEST(RotatedIou, IsSymmetric) {
  const std::vector<Box> boxes = {{0, 0, 3, 1, 0.3F},    {1, 0, 3, 1, 0.3F}, {0, 0, 3, 1, -0.7F},
                                  {0, 0, 3, 1, 0.31F},   {0.5F, 0, 1, 3, 2}, {0, 0.25F, 3, 1, 0.3F},
                                  {0, 0, 300, 0.01F, 1}, {0, 0, 0, 5, 0},    {0, 0, -2, 1, 0},
                                  {kNan, 0, 1, 1, 0},    {0, kInf, 1, 1, 0}, {0, 0, 1, 1, kInf}};
  for (const RotatedNms method : kMethods) {
    for (const Box& a : boxes) {
      for (const Box& b : boxes) {
        const float iou = Iou(a, b, method);
        const float exchanged = Iou(b, a, method);
        EXPECT_TRUE(iou == exchanged || (std::isnan(iou) && std::isnan(exchanged)))
            << iou << " and " << exchanged;
      }
    }
  }
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

// Equal shapes at a distance d along the width: the Bhattacharyya distance is 3 d^2 / (2 w^2).
TEST(RotatedIou, ProbiouOfEqualShapes) {
  for (const float angle : {0.0F, 0.5F, 2.0F}) {
    const Box a = {10, 20, 40, 20, angle};
    const Box b = {10 + 8 * std::cos(angle), 20 + 8 * std::sin(angle), 40, 20, angle};
    const float expected = 1.0F - std::sqrt(1.0F - std::exp(-0.06F) + 1e-7F);
    EXPECT_NEAR(Iou(a, b, RotatedNms::kProbiou), expected, 1e-5F);
    EXPECT_EQ(Iou(a, b, RotatedNms::kProbiou), Iou(a, b, RotatedNms::kProbiouFast));
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

TEST(RotatedNms, GreedyKeepsWhatOnlyASuppressedBoxOverlaps) {
  const std::vector<Box> chain = {
      {0, 0, 40, 40, 0.2F}, {14, 0, 40, 40, 0.2F}, {28, 0, 40, 40, 0.2F}};
  const std::vector<float> scores = {0.9F, 0.8F, 0.7F};
  EXPECT_EQ(Suppress(chain, scores, {0.4, -1, RotatedNms::kPolygon}), (Indices{0, 2}));
  EXPECT_EQ(Suppress(chain, scores, {0.5, -1, RotatedNms::kProbiou}), (Indices{0, 2}));
  EXPECT_EQ(Suppress(chain, scores, {0.5, -1, RotatedNms::kProbiouFast}), (Indices{0}));
}

TEST(RotatedNms, TiesClassesAndLimits) {
  const std::vector<Box> boxes(5, {50, 50, 30, 10, 1});
  for (const RotatedNms method : kMethods) {
    EXPECT_EQ(Suppress(boxes, {1, 2, 1, 2, 1}, {0.5, -1, method}), (Indices{1}));
    EXPECT_EQ(Suppress(boxes, {1, 2, 1, 2, 1}, {0.5, -1, method}, {7, 7, -7, 7, 8}),
              (Indices{1, 2, 4}));
    EXPECT_EQ(Suppress(boxes, {1, 2, 1, 2, 1}, {0.5, 2, method}, {7, 7, -7, 7, 8}),
              (Indices{1, 2}));
    EXPECT_EQ(Suppress(boxes, {1, 2, 1, 2, 1}, {1.0, -1, method}), (Indices{1, 3, 0, 2, 4}));
    EXPECT_EQ(Suppress(boxes, {1, 2, 1, 2, 1}, {0.5, 0, method}), (Indices{}));
    EXPECT_EQ(Suppress({}, {}, {0.5, -1, method}), (Indices{}));
  }
}

TEST(RotatedNms, NanDoesNotSuppress) {
  const std::vector<Box> boxes = {
      {kNan, 0, 9, 9, 0}, {0, 0, 9, 9, kInf}, {0, 0, kInf, 9, 0}, {0, 0, 9, 9, 0}, {0, 0, 9, 9, 0}};
  for (const RotatedNms method : kMethods) {
    EXPECT_EQ(Suppress(boxes, {5, 4, 3, 2, 1}, {0.0, -1, method}), (Indices{0, 1, 2, 3}));
  }
}

TEST(RotatedNms, NamesAndBadArguments) {
  const auto names = RotatedNmsNames();
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(ParseRotatedNms(names[i]), kMethods[i]);
  }
  const auto code = ErrorCode::kInvalidArgument;
  EXPECT_TRUE(Throws(code, "probiou_fast", [] { ParseRotatedNms("exact"); }));
  const Box box = {0, 0, 1, 1, 0};
  EXPECT_TRUE(Throws(code, "cx,cy,w,h,angle", [&] { Suppress({box}, {1, 2}, {}); }));
  EXPECT_TRUE(Throws(code, "NaN", [&] { Suppress({box}, {kNan}, {}); }));
  EXPECT_TRUE(Throws(code, "iou_threshold", [&] { Suppress({box}, {1}, {1.5}); }));
  EXPECT_TRUE(Throws(code, "class_ids", [&] { Suppress({box}, {1}, {}, {1, 2}); }));
  std::vector<float> iou(3);
  const RotatedNms method = RotatedNms::kPolygon;
  EXPECT_TRUE(Throws(code, "1 pairs", [&] { RotatedIou(box, box, method, iou); }));
  EXPECT_TRUE(Throws(code, "each box needs 5", [&] { RotatedIou(iou, box, method, iou); }));
}

}  // namespace
}  // namespace endcap
