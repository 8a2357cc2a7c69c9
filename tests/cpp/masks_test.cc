#include "endcap/masks.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "error_matchers.h"

namespace endcap {
namespace {

using Strings = std::vector<std::string>;
using testing::Throws;

// 2x3 prototypes of an input of 4x6: one that is positive in the left column, one everywhere.
constexpr int kHeight = 2;
constexpr int kWidth = 3;
constexpr std::array<float, 12> kPixels = {3, -1, -1, 3, -1, -1, 1, 1, 1, 1, 1, 1};
const MaskPrototypes kPrototypes{kPixels.data(), 2, kHeight, kWidth};
constexpr std::array<float, 4> kWholeInput = {0, 0, 6, 4};

MaskPlan MakePlan(MaskResolution resolution, const Geometry* geometry = nullptr) {
  return {resolution, 2 * kHeight, 2 * kWidth, geometry};
}

std::vector<uint8_t> Pack(const MaskDetections& detections, const MaskPlan& plan,
                          Implementation implementation = Implementation::kScalar) {
  const MaskSize size = ComputeMaskSize(kPrototypes, plan);
  std::vector<uint8_t> bits(detections.boxes_xyxy.size() / 4 * size.packed_bytes());
  WritePackedMasks(kPrototypes, detections, plan, implementation, bits.data());
  return bits;
}

Strings Encode(const MaskDetections& detections, const MaskPlan& plan,
               Implementation implementation = Implementation::kScalar) {
  Strings rle{"left by another call"};
  EncodeMasks(kPrototypes, detections, plan, implementation, rle);
  return rle;
}

TEST(Masks, PrototypePixelsAreThresholded) {
  const std::vector<float> left = {1, 0};
  const MaskPlan plan = MakePlan(MaskResolution::kPrototype);
  EXPECT_EQ(Pack({left, kWholeInput, {}}, plan), (std::vector<uint8_t>{0b10000000, 0b10000000}));
  EXPECT_EQ(Encode({left, kWholeInput, {}}, plan), Strings{"024"});
}

// From 3 at x 0.5 of the prototypes to -1 at 1.5: input columns have their centres at 0.25, 0.75,
// 1.25 (0 there) and so on.
TEST(Masks, LogitsAreInterpolatedBeforeTheThreshold) {
  const std::vector<float> left = {1, 0};
  const MaskPlan plan = MakePlan(MaskResolution::kInput);
  EXPECT_EQ(Pack({left, kWholeInput, {}}, plan), (std::vector<uint8_t>(4, 0b11000000)));
  const std::vector<float> a_little_more = {1, 0.125F};
  EXPECT_EQ(Pack({a_little_more, kWholeInput, {}}, plan), (std::vector<uint8_t>(4, 0b11100000)));
}

TEST(Masks, ABoxHoldsItsFirstEdgeAndNotItsLast) {
  const std::vector<float> everywhere = {0, 1};
  const std::vector<float> box = {1, 0.5F, 4, 3};
  const MaskPlan plan = MakePlan(MaskResolution::kInput);
  EXPECT_EQ(Pack({everywhere, box, {}}, plan),
            (std::vector<uint8_t>{0, 0b01110000, 0b01110000, 0}));
}

// The source is as wide as the input, but lies only in its columns 2 to 5, half as large.
TEST(Masks, NoLogitOfThePaddingCountsInTheSource) {
  Geometry geometry;
  geometry.scale_x = geometry.scale_y = 0.5F;
  geometry.pad_x = 2.0F;
  geometry.image_w = 8.0F;
  geometry.image_h = 8.0F;
  const std::vector<float> left = {1, 0.5F};  // 3.5 in the padding, -0.5 in the picture
  const MaskPlan plan = MakePlan(MaskResolution::kSource, &geometry);
  EXPECT_EQ(ComputeMaskSize(kPrototypes, plan).pixels(), 64U);
  EXPECT_EQ(Pack({left, kWholeInput, {}}, plan), std::vector<uint8_t>(8, 0));
  const std::vector<float> everywhere = {0, 1};
  EXPECT_EQ(Pack({everywhere, kWholeInput, {}}, plan), std::vector<uint8_t>(8, 0xFF));
}

TEST(Masks, ManyAtOnceAreThoseOfEach) {
  const std::vector<float> coefficients = {1, 0, 0, 1, 1, -1};
  const std::vector<float> boxes = {0, 0, 6, 4, 1, 1, 3, 3, 0, 0, 2, 2};
  const MaskPlan plan = MakePlan(MaskResolution::kInput);
  const Strings all = Encode({coefficients, boxes, {}}, plan);
  ASSERT_EQ(all.size(), 3U);
  for (size_t n = 0; n < 3; ++n) {
    const MaskDetections one{
        std::span(coefficients).subspan(2 * n, 2), std::span(boxes).subspan(4 * n, 4), {}};
    EXPECT_EQ(Encode(one, plan), Strings{all[n]}) << n;
  }
}

TEST(Masks, ErrorsNameTheCandidate) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> coefficients = {1, 0, 1, nan};
  const std::vector<float> boxes = {0, 0, 6, 4, 0, 0, 6, 4};
  const std::vector<int32_t> indices = {7, 8123};
  const MaskPlan plan = MakePlan(MaskResolution::kInput);
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument,
                     "mask coefficient 1 of detection 1 (candidate 8123) is nan",
                     [&] { Encode({coefficients, boxes, indices}, plan); }));
  const std::vector<float> great = {1, 0, 1e38F, 1e38F};
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument,
                     "logit of detection 1 (candidate 8123) at row 0, column 0 of the prototypes",
                     [&] { Encode({great, boxes, indices}, plan); }));
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "1 indices",
                     [&] { Encode({great, boxes, std::span(indices).first(1)}, plan); }));
}

TEST(Masks, PathsThatAreNotThere) {
  const std::vector<float> left = {1, 0};
  EXPECT_TRUE(Throws(ErrorCode::kUnsupported, "no implementation on a GPU", [&] {
    Encode({left, kWholeInput, {}}, MakePlan(MaskResolution::kInput), Implementation::kCuda);
  }));
}

}  // namespace
}  // namespace endcap
