// RLE of masks by the GPU's kernels: the same strings as Postprocessor's.

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "mask_harness.h"

namespace endcap {
namespace {

using testing::At;
using testing::ExpectSameAsCpu;
using testing::kCoefficients;
using testing::kGeometry;
using testing::kMaskClasses;
using testing::kMasks;
using testing::kMaskSize;
using testing::MaskParams;
using testing::Results;
using testing::SegImage;
using testing::TestImage;

constexpr std::array kResolutions = {MaskResolution::kPrototype, MaskResolution::kInput,
                                     MaskResolution::kSource};

void SetBox(TestImage& image, size_t anchors, size_t anchor, const std::array<float, 4>& cxcywh) {
  for (size_t i = 0; i < 4; ++i) At(image, 0, i * anchors + anchor) = cxcywh[i];
  for (size_t i = 0; i < kMaskClasses; ++i) At(image, 0, (4 + i) * anchors + anchor) = 0.9F;
}

// Columns that are inside from their first pixel to their last, and so the next ones.
TEST(RunLengthCuda, RunsThatGoOnInTheNextColumn) {
  for (const MaskResolution resolution : kResolutions) {
    for (const float sign : {1.0F, -1.0F}) {
      const auto params = MaskParams(resolution, 19, 20);
      TestImage image = SegImage(params, 21, 1);
      SetBox(image, 1, 0, {320.0F, 304.0F, 3000.0F, 3000.0F});
      TestImage noisy = image;
      for (size_t pixel = 0; pixel < 5 * 19 * 20; ++pixel) At(image, 1, pixel) = 1.0F;
      for (size_t i = 0; i < kCoefficients; ++i) At(image, 0, 4 + kMaskClasses + i) = sign;
      const Results results = ExpectSameAsCpu(params, {image, noisy});
      ASSERT_EQ(results.rles[0].size(), 1);
      EXPECT_LT(results.rles[0][0].size(), 10);
      EXPECT_GT(results.rles[1][0].size(), 100);
    }
  }
}

// Boxes that are as high as the mask, or as wide, or end with it.
TEST(RunLengthCuda, BoxesAtTheEdges) {
  const auto params = MaskParams(MaskResolution::kInput, 38, 40);
  TestImage image = SegImage(params, 22, 5);
  image.geometry.reset();  // which would drop one of them
  const std::array<std::array<float, 4>, 5> boxes = {{{100.0F, 304.0F, 80.0F, 608.0F},
                                                      {320.0F, 104.0F, 640.0F, 80.0F},
                                                      {600.0F, 590.0F, 80.0F, 36.0F},
                                                      {20.0F, 20.0F, 40.0F, 40.0F},
                                                      {400.5F, 400.5F, 0.9F, 0.9F}}};
  for (size_t a = 0; a < boxes.size(); ++a) SetBox(image, boxes.size(), a, boxes[a]);
  EXPECT_EQ(ExpectSameAsCpu(params, {image}).items[0].num_detections, 5);
}

// Pictures larger and smaller than the input, with padding, and without a geometry.
TEST(RunLengthCuda, OfSourceImages) {
  const auto params = MaskParams(MaskResolution::kSource, 38, 40);
  constexpr std::array<std::array<float, 8>, 5> kGeometries = {
      {{0.25F, 0.25F, 0.0F, 54.0F, 2560.0F, 2000.0F, 1.0F, 0.0F},
       {8.0F, 8.0F, 0.0F, 4.0F, 80.0F, 75.0F, 1.0F, 0.0F},
       {1.0F, 2.0F, 17.3F, -5.25F, 600.0F, 290.0F, 1.0F, 0.0F},
       {200.0F, 200.0F, 0.0F, 4.0F, 3.0F, 3.0F, 1.0F, 0.0F},
       {0.5F, 0.5F, 5000.0F, 5000.0F, 1.0F, 1.0F, 1.0F, 0.0F}}};
  std::vector<TestImage> images = {SegImage(params, 23, 80)};
  images[0].geometry.reset();
  for (size_t i = 0; i < kGeometries.size(); ++i) {
    images.push_back(SegImage(params, 24 + static_cast<uint32_t>(i), 80, i % 2 == 0));
    images.back().geometry = kGeometries[i];
    images.back().geometry_on_device = i % 2 != 0;
  }
  const Results results = ExpectSameAsCpu(params, images);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(results.rles[i].size(), 12);
}

TEST(RunLengthCuda, SidesOfTheSourceThatNoMaskHas) {
  const auto params = MaskParams(MaskResolution::kSource, 38, 40);
  const auto with = [&](uint32_t seed, float width, float height) {
    TestImage image = SegImage(params, seed, 20);
    image.geometry = kGeometry;
    (*image.geometry)[4] = width;
    (*image.geometry)[5] = height;
    return image;
  };
  std::vector<TestImage> images = {with(31, 10.5F, 100.0F),  with(32, 100.0F, 65536.0F),
                                   with(33, 0.0F, 0.5F),     with(34, 100.0F, 100.0F),
                                   with(35, 100.0F, 100.5F), with(36, 100.5F, 100.0F)};
  images[1].geometry_on_device = true;
  images[4].skipped = {kMaskSize};
  images[4].without_rle = true;
  At(images[5], 0, 0) = std::numeric_limits<float>::quiet_NaN();
  const Results results = ExpectSameAsCpu(params, images);
  EXPECT_EQ(results.items[0].status.message,
            "geometry has image_w 10.5: masks of the source need a whole number from 1 to 65535");
  EXPECT_TRUE(results.items[3].status.ok());
  EXPECT_FALSE(results.items[4].status.ok());
  EXPECT_NE(results.items[5].status.message.find("NaN"), std::string::npos);
}

TEST(RunLengthCuda, ABatchWithBadImages) {
  for (const MaskResolution resolution : kResolutions) {
    const auto params = MaskParams(resolution);
    constexpr float kInf = std::numeric_limits<float>::infinity();
    std::vector<TestImage> images;
    for (uint32_t seed = 40; seed < 46; ++seed) images.push_back(SegImage(params, seed, 50));
    images[1].status = 3;
    for (size_t a = 0; a < 50; ++a) At(images[2], 0, (4 + kMaskClasses + 1) * 50 + a) = kInf;
    for (size_t pixel = 0; pixel < 152 * 160; ++pixel) At(images[3], 1, pixel) = -kInf;
    images[4].without_rle = true;
    images[5].skipped = {kMaskSize};
    if (resolution != MaskResolution::kSource) images[5].skipped.push_back(kMasks);
    const Results results = ExpectSameAsCpu(params, images);
    EXPECT_NE(results.items[2].status.message.find("row 8 of anchor"), std::string::npos);
    EXPECT_NE(results.items[3].status.message.find("the mask logit of detection 0"),
              std::string::npos);
    EXPECT_EQ(results.rles[5].size(), 12);
  }
}

}  // namespace
}  // namespace endcap
