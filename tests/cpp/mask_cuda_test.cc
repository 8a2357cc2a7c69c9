// Masks by the GPU's kernels: the same as Postprocessor's, byte for byte.

#include <gtest/gtest.h>

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
constexpr int kClasses = 3;
constexpr size_t kMasks = 6;  // positions of the outputs
constexpr size_t kMaskSize = 5;

PostprocessParams Params(MaskResolution resolution, int height = 152, int width = 160) {
  PostprocessParams params;
  params.head.family = HeadFamily::kYolov8Seg;
  params.head.num_classes = kClasses;
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
  auto values = random.Yolov8(kClasses, anchors);
  for (size_t i = 0; i < kCoefficients * anchors; ++i) values.push_back(random.Uniform(-1, 1));
  const auto pixels = static_cast<size_t>(head.prototype_height * head.prototype_width);
  std::vector<float> prototypes(kCoefficients * pixels);
  for (float& value : prototypes) value = random.Uniform(-1, 1);
  return {
      {FloatTensor(values, {4 + kClasses + kCoefficients, static_cast<int64_t>(anchors)}, half),
       FloatTensor(prototypes, {kCoefficients, head.prototype_height, head.prototype_width}, half)},
      kGeometry};
}

float& At(TestImage& image, size_t input, size_t place) {
  return reinterpret_cast<float*>(image.head[input].bytes.data())[place];
}

TEST(MaskCuda, OfEveryResolution) {
  for (const MaskResolution resolution : {MaskResolution::kPrototype, MaskResolution::kInput}) {
    const auto params = Params(resolution);
    std::vector<TestImage> images = {SegImage(params, 1, 300), SegImage(params, 2, 40, true),
                                     SegImage(params, 3, 1)};
    images[0].geometry.reset();
    const Results results = ExpectSameAsCpu(params, images);
    EXPECT_EQ(results.items[0].num_detections, 12);
    const auto& masks = results.tensors[0][kMasks];
    EXPECT_GT(std::ranges::count_if(masks, [](uint8_t byte) { return byte != 0; }), 150);
  }
}

// Tiles that end within a byte, prototypes as large as the input, and one pixel for all of it.
TEST(MaskCuda, OfOddSizes) {
  for (const auto& [height, width] : {std::array{608, 640}, {1, 1}, {33, 129}, {607, 3}}) {
    auto params = Params(MaskResolution::kInput, height, width);
    ExpectSameAsCpu(params, {SegImage(params, 4, 60)});
    params.mask_resolution = MaskResolution::kPrototype;
    ExpectSameAsCpu(params, {SegImage(params, 5, 60)});
    params.mask_resolution = MaskResolution::kInput;
    params.head.input_height = 611;
    params.head.input_width = 645;
    ExpectSameAsCpu(params, {SegImage(params, 6, 60)});
  }
}

TEST(MaskCuda, BoxesOutsideTheMask) {
  const auto params = Params(MaskResolution::kInput);
  TestImage image = SegImage(params, 7, 4);
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

TEST(MaskCuda, ABatchWithBadImages) {
  const auto params = Params(MaskResolution::kInput);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<TestImage> images;
  for (uint32_t seed = 10; seed < 18; ++seed) images.push_back(SegImage(params, seed, 50));
  images[1].status = 3;
  for (size_t a = 0; a < 50; ++a) At(images[2], 0, (4 + kClasses + 1) * 50 + a) = kInf;
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
  auto params = Params(MaskResolution::kInput, 38, 40);
  params.head.input_height = 152;
  params.head.input_width = 160;
  params.max_detections = 3;
  std::vector<TestImage> images;
  for (uint32_t seed = 30; seed < 100; ++seed) images.push_back(SegImage(params, seed, 9));
  ExpectSameAsCpu(params, images);
}

}  // namespace
}  // namespace endcap
