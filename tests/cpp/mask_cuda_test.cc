// Masks by the GPU's kernels: the same as Postprocessor's, byte for byte.

#include <gtest/gtest.h>

#include <limits>

#include "mask_harness.h"

namespace endcap {
namespace {

using testing::At;
using testing::ExpectSameAsCpu;
using testing::kMaskClasses;
using testing::kMasks;
using testing::kMaskSize;
using testing::MaskParams;
using testing::Results;
using testing::SegImage;
using testing::TestImage;

TEST(MaskCuda, OfEveryResolution) {
  for (const MaskResolution resolution :
       {MaskResolution::kPrototype, MaskResolution::kInput, MaskResolution::kSource}) {
    const auto params = MaskParams(resolution);
    std::vector<TestImage> images = {SegImage(params, 1, 300), SegImage(params, 2, 40, true),
                                     SegImage(params, 3, 1)};
    images[0].geometry.reset();
    const Results results = ExpectSameAsCpu(params, images);
    EXPECT_EQ(results.items[0].num_detections, 12);
    EXPECT_GT(results.rles[0][0].size(), 20);
    if (resolution == MaskResolution::kSource) continue;
    const auto& masks = results.tensors[0][kMasks];
    EXPECT_GT(std::ranges::count_if(masks, [](uint8_t byte) { return byte != 0; }), 150);
  }
}

// Tiles that end within a byte, prototypes as large as the input, and one pixel for all of it.
TEST(MaskCuda, OfOddSizes) {
  for (const auto& [height, width] : {std::array{608, 640}, {1, 1}, {33, 129}, {607, 3}}) {
    auto params = MaskParams(MaskResolution::kInput, height, width);
    ExpectSameAsCpu(params, {SegImage(params, 4, 60)});
    params.mask_resolution = MaskResolution::kPrototype;
    ExpectSameAsCpu(params, {SegImage(params, 5, 60)});
    params.mask_resolution = MaskResolution::kSource;
    ExpectSameAsCpu(params, {SegImage(params, 5, 60)});
    params.mask_resolution = MaskResolution::kInput;
    params.head.input_height = 611;
    params.head.input_width = 645;
    ExpectSameAsCpu(params, {SegImage(params, 6, 60)});
  }
}

// A tile of such a mask may lie above more prototype pixels than shared memory has room for. Row
// 149 and column 409 or 447 are below no pixel, between two tiles.
TEST(MaskCuda, OfPrototypesThatAreLargerThanTheInput) {
  for (const auto& [height, width, row, column] :
       {std::array{300, 640, 149, 409}, {80, 90, 40, 45}, {96, 700, 40, 447}}) {
    auto params = MaskParams(MaskResolution::kInput, height, width);
    params.head.input_height = 64;
    params.head.input_width = 200;
    TestImage image = SegImage(params, 50, 3);
    const std::array box = {100.0F, 32.0F, 500.0F, 500.0F};
    for (size_t i = 0; i < 4; ++i) At(image, 0, i * 3) = box[i];
    for (size_t i = 0; i < kMaskClasses; ++i) At(image, 0, (4 + i) * 3) = 0.9F;
    TestImage bad = image;
    At(bad, 1, static_cast<size_t>(row * width + column)) = std::numeric_limits<float>::infinity();
    const Results results = ExpectSameAsCpu(params, {image, bad});
    EXPECT_TRUE(results.items[0].status.ok());
    EXPECT_FALSE(results.items[1].status.ok());
  }
}

TEST(MaskCuda, BoxesOutsideTheMask) {
  for (const auto resolution : {MaskResolution::kInput, MaskResolution::kSource}) {
    const auto params = MaskParams(resolution);
    TestImage image = SegImage(params, 7, 4);
    image.geometry.reset();  // which would drop three of them
    const std::array<std::array<float, 4>, 4> boxes = {{{-50.0F, 300.0F, 80.0F, 1e6F},
                                                        {320.0F, 300.0F, 1e30F, 20.0F},
                                                        {640.5F, 608.5F, 0.5F, 0.5F},
                                                        {5000.0F, 5000.0F, 10.0F, 10.0F}}};
    for (size_t a = 0; a < 4; ++a) {
      for (size_t i = 0; i < 4; ++i) At(image, 0, i * 4 + a) = boxes[a][i];
      At(image, 0, 4 * 4 + a) = 0.9F;
    }
    const Results results = ExpectSameAsCpu(params, {image});
    EXPECT_EQ(results.items[0].num_detections, 4);
  }
}

TEST(MaskCuda, ABatchWithBadImages) {
  const auto params = MaskParams(MaskResolution::kInput);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<TestImage> images;
  for (uint32_t seed = 10; seed < 18; ++seed) images.push_back(SegImage(params, seed, 50));
  images[1].status = 3;
  for (size_t a = 0; a < 50; ++a) At(images[2], 0, (4 + kMaskClasses + 1) * 50 + a) = kInf;
  // A prototype pixel in the middle, where boxes are, and the one behind it.
  At(images[3], 1, 76 * 160 + 80) = std::numeric_limits<float>::quiet_NaN();
  for (size_t pixel = 0; pixel < 152 * 160; ++pixel) At(images[4], 1, pixel) = -kInf;
  At(images[5], 0, 50) = kInf;  // a box
  images[6].skipped = {kMasks};
  At(images[6], 1, 76 * 160 + 80) = kInf;  // nobody asks for masks
  images[7].skipped = {kMaskSize};
  images[7].staged = true;
  const Results results = ExpectSameAsCpu(params, images);
  EXPECT_NE(results.items[2].status.message.find("row 8 of anchor"), std::string::npos);
  EXPECT_NE(results.items[4].status.message.find("the mask logit of detection 0"),
            std::string::npos);
  EXPECT_TRUE(results.items[6].status.ok());
  EXPECT_TRUE(results.items[7].status.ok());
}

TEST(MaskCuda, ManyImages) {
  auto params = MaskParams(MaskResolution::kInput, 38, 40);
  params.head.input_height = 152;
  params.head.input_width = 160;
  params.max_detections = 3;
  std::vector<TestImage> images;
  for (uint32_t seed = 30; seed < 100; ++seed) images.push_back(SegImage(params, seed, 9));
  ExpectSameAsCpu(params, images);
}

}  // namespace
}  // namespace endcap
