// Masks, as bits and as RLE, on the emulated GPU: those of the CPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "detection_harness.h"

namespace endcap {
namespace {

using testing::ExpectSameAsCpu;
using testing::FloatTensor;
using testing::kGeometry;
using testing::RandomHead;
using testing::Results;
using testing::TestImage;

constexpr int kCoefficients = 5;
constexpr int kMaskClasses = 3;
constexpr size_t kMasks = 6;  // positions of the outputs
constexpr size_t kMaskSize = 5;

PostprocessParams MaskParams(MaskResolution resolution, int height = 152, int width = 160) {
  PostprocessParams params;
  params.head.family = HeadFamily::kYolov8Seg;
  params.head.num_classes = kMaskClasses;
  params.head.mask_coefficients = kCoefficients;
  params.head.prototype_height = height;
  params.head.prototype_width = width;
  params.head.input_height = 608;
  params.head.input_width = 640;
  params.max_detections = 12;
  params.mask_resolution = resolution;
  return params;
}

TestImage SegImage(const PostprocessParams& params, uint32_t seed, size_t anchors,
                   bool half = false) {
  const HeadParams& head = params.head;
  RandomHead random(seed);
  auto values = random.Yolov8(kMaskClasses, anchors);
  for (size_t i = 0; i < kCoefficients * anchors; ++i) values.push_back(random.Uniform(-1, 1));
  const auto pixels = static_cast<size_t>(head.prototype_height * head.prototype_width);
  std::vector<float> prototypes(kCoefficients * pixels);
  for (float& value : prototypes) value = random.Uniform(-1, 1);
  return {
      {FloatTensor(values, {4 + kMaskClasses + kCoefficients, static_cast<int64_t>(anchors)}, half),
       FloatTensor(prototypes, {kCoefficients, head.prototype_height, head.prototype_width}, half)},
      kGeometry};
}

float& At(TestImage& image, size_t input, size_t place) {
  return reinterpret_cast<float*>(image.head[input].bytes.data())[place];
}

constexpr std::array kResolutions = {MaskResolution::kPrototype, MaskResolution::kInput,
                                     MaskResolution::kSource};

TEST(MaskCuda, OfEveryResolution) {
  for (const MaskResolution resolution : kResolutions) {
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
