// Raw heads to output rows by the GPU's kernels: the same as Postprocessor, byte for byte.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "detection_harness.h"

namespace endcap {
namespace {

using testing::ExpectSameAsCpu;
using testing::FloatTensor;
using testing::kGeometry;
using testing::Params;
using testing::RandomHead;
using testing::Results;
using testing::TestImage;

TestImage Yolov8Image(uint32_t seed, int64_t classes, int64_t anchors, bool half = false) {
  RandomHead random(seed);
  const auto head = random.Yolov8(static_cast<size_t>(classes), static_cast<size_t>(anchors));
  return {{FloatTensor(head, {4 + classes, anchors}, half)}, kGeometry};
}

TestImage Yolov5Image(uint32_t seed, int64_t classes, int64_t anchors, bool half = false) {
  RandomHead random(seed);
  const auto head = random.Yolov5(static_cast<size_t>(classes), static_cast<size_t>(anchors));
  return {{FloatTensor(head, {anchors, 5 + classes}, half)}, kGeometry};
}

TEST(DetectionCuda, Yolov8OfAnyLength) {
  const auto params = Params(HeadFamily::kYolov8, 5);
  std::vector<TestImage> images;
  uint32_t seed = 1;
  for (const int64_t anchors : {1, 3, 4, 127, 128, 129, 255, 256, 400, 1001}) {
    for (const bool half : {false, true}) images.push_back(Yolov8Image(seed++, 5, anchors, half));
  }
  const Results results = ExpectSameAsCpu(params, images);
  EXPECT_GT(results.items.back().num_detections, 20);
}

TEST(DetectionCuda, Yolov8OfTheUsualSize) {
  const auto params = Params(HeadFamily::kYolov8, 80);
  std::vector<TestImage> images = {Yolov8Image(1, 80, 8400), Yolov8Image(2, 80, 8399)};
  images[1].geometry.reset();
  const Results results = ExpectSameAsCpu(params, images);
  EXPECT_EQ(results.items[0].num_detections, 100);
}

TEST(DetectionCuda, BoxesWithoutAreaAreDropped) {
  auto params = Params(HeadFamily::kYolov8, 2);
  params.head.score_threshold = 0.01;
  params.max_detections = 30;
  for (const bool multi_label : {false, true}) {
    params.head.multi_label = multi_label;
    TestImage image = Yolov8Image(9, 2, 2000);
    const int all = ExpectSameAsCpu(params, {image}).items[0].num_detections;
    EXPECT_EQ(all, 30);
    image.geometry = {1.0F, 0.5F, 200.0F, 300.0F, 120.0F, 200.0F, 1.0F, 0.0F};
    const int in_image = ExpectSameAsCpu(params, {image}).items[0].num_detections;
    EXPECT_GT(in_image, 10);
  }
}

TEST(DetectionCuda, HeadsThatAreNotAligned) {
  const auto params = Params(HeadFamily::kYolov8, 3);
  std::vector<TestImage> images;
  for (const size_t bytes : {4, 8, 12, 16}) {
    images.push_back(Yolov8Image(7, 3, 200));
    images.back().misaligned_by = bytes;
    images.push_back(Yolov8Image(8, 3, 200, true));
    images.back().misaligned_by = bytes / 2;
  }
  ExpectSameAsCpu(params, images);
}

TEST(DetectionCuda, Yolov8MultiLabel) {
  auto params = Params(HeadFamily::kYolov8, 7);
  params.head.multi_label = true;
  params.head.score_threshold = 0.05;
  std::vector<TestImage> images;
  uint32_t seed = 20;
  for (const int64_t anchors : {1, 3, 130, 999}) {
    for (const bool half : {false, true}) images.push_back(Yolov8Image(seed++, 7, anchors, half));
  }
  ExpectSameAsCpu(params, images);
  params.class_agnostic = true;
  ExpectSameAsCpu(params, images);
}

TEST(DetectionCuda, Yolov5) {
  for (const bool multi_label : {false, true}) {
    auto params = Params(HeadFamily::kYolov5, 150);  // more than a warp reads at once
    params.head.multi_label = multi_label;
    params.head.score_threshold = 0.1;
    ExpectSameAsCpu(
        params, {Yolov5Image(1, 150, 1), Yolov5Image(2, 150, 63), Yolov5Image(3, 150, 500, true)});
    params.head.num_classes = 3;
    ExpectSameAsCpu(params, {Yolov5Image(4, 3, 65), Yolov5Image(5, 3, 1501)});
  }
}

TEST(DetectionCuda, SigmoidOfLogits) {
  for (const bool multi_label : {false, true}) {
    for (const HeadFamily family : {HeadFamily::kYolov8, HeadFamily::kYolov5}) {
      auto params = Params(family, 4);
      params.head.activation = Activation::kSigmoid;
      params.head.multi_label = multi_label;
      RandomHead random(30);
      const bool v8 = family == HeadFamily::kYolov8;
      auto head = v8 ? random.Yolov8(4, 500) : random.Yolov5(4, 500);
      for (size_t i = 0; i < head.size(); ++i) {
        const bool is_score = v8 ? i >= 4 * 500 : i % 9 >= 4;
        if (is_score) head[i] = random.Uniform(-8.0F, 6.0F);
      }
      const std::vector<int64_t> shape =
          v8 ? std::vector<int64_t>{8, 500} : std::vector<int64_t>{500, 9};
      for (const double threshold : {0.0, 0.25, 0.9}) {
        params.head.score_threshold = threshold;
        const Results results = ExpectSameAsCpu(params, {{{FloatTensor(head, shape)}, kGeometry}});
        EXPECT_GT(results.items[0].num_detections, 5);
      }
    }
  }
}

TEST(DetectionCuda, ManyMoreCandidatesThanAChunk) {
  auto params = Params(HeadFamily::kYolov8, 2);
  params.head.score_threshold = 0.0;
  params.max_detections = 3000;
  params.iou_threshold = 0.9;  // few are suppressed
  std::vector<TestImage> images = {Yolov8Image(40, 2, 6000)};
  RandomHead random(41);
  random.score_steps = 1;  // all scores are 0 or 1: nearly all keys begin alike
  random.score_scale = 0.5F;
  auto head = random.Yolov8(2, 5000);
  std::fill(head.begin() + 4 * 5000, head.end(), 0.5F);
  images.push_back({{FloatTensor(head, {6, 5000})}, std::nullopt});
  // Scores that are close to each other.
  for (size_t a = 0; a < 5000; ++a) {
    head[4 * 5000 + a] = 0.5F + static_cast<float>(a * 7919 % 5000) * 0x1p-24F;
  }
  images.push_back({{FloatTensor(head, {6, 5000})}, std::nullopt});
  const Results results = ExpectSameAsCpu(params, images);
  EXPECT_GT(results.items[0].num_detections, 1100);
}

TEST(DetectionCuda, TruncatesAsTheCpu) {
  for (const int most : {1, 10, 1024, 1500, 2048}) {
    auto params = Params(HeadFamily::kYolov8, 2);
    params.head.score_threshold = 0.01;
    params.head.max_candidates = most;
    params.max_detections = 2000;
    params.iou_threshold = 0.95;
    const Results results = ExpectSameAsCpu(params, {Yolov8Image(50, 2, 4000)});
    EXPECT_TRUE(results.items[0].truncated);
  }
}

TEST(DetectionCuda, FewRows) {
  for (const int rows : {1, 2, 31, 33}) {
    auto params = Params(HeadFamily::kYolov8, 2);
    params.max_detections = rows;
    const Results results = ExpectSameAsCpu(params, {Yolov8Image(60, 2, 600)});
    EXPECT_EQ(results.items[0].num_detections, rows);
  }
}

TEST(DetectionCuda, NothingOverTheThreshold) {
  auto params = Params(HeadFamily::kYolov8, 2);
  params.head.score_threshold = 1.0;
  std::vector<TestImage> images = {Yolov8Image(61, 2, 300)};
  images.push_back({{FloatTensor({}, {6, 0})}, kGeometry});
  const Results results = ExpectSameAsCpu(params, images);
  EXPECT_EQ(results.items[0].num_detections, 0);
}

TEST(DetectionCuda, NormalizedBoxesAndThresholdsBetweenFloats) {
  auto params = Params(HeadFamily::kYolov8, 2);
  params.head.box_unit = BoxUnit::kNormalized;
  params.head.box_format = BoxFormat::kXyxy;
  params.head.input_width = 511;
  params.head.score_threshold = 0.3;
  params.iou_threshold = 0.1;
  ExpectSameAsCpu(params, {Yolov8Image(70, 2, 300)});
  params.iou_threshold = 0.0;
  ExpectSameAsCpu(params, {Yolov8Image(71, 2, 300)});
  params.iou_threshold = 1.0;
  ExpectSameAsCpu(params, {Yolov8Image(72, 2, 300)});
}

TEST(DetectionCuda, BoxesWithoutAnArea) {
  auto params = Params(HeadFamily::kYolov8, 1);
  params.iou_threshold = 0.0;
  RandomHead random(80);
  auto head = random.Yolov8(1, 90);
  for (size_t a = 0; a < 90; ++a) {
    head[2 * 90 + a] = static_cast<float>(a % 3) * 20.0F - 20.0F;  // -20, 0, 20 wide
    head[3 * 90 + a] = static_cast<float>(a % 4) * 1e19F - 1e19F;  // areas that overflow
    head[4 * 90 + a] = 0.9F;
  }
  ExpectSameAsCpu(params, {{{FloatTensor(head, {5, 90})}, std::nullopt}});
}

TEST(DetectionCuda, ABatchOfAllSorts) {
  auto params = Params(HeadFamily::kYolov8, 3);
  std::vector<TestImage> images;
  for (uint32_t i = 0; i < 70; ++i) images.push_back(Yolov8Image(100 + i, 3, 40 + i, i % 3 == 0));
  images[3].status = 1;
  images[3].head.clear();
  images[4].geometry_on_device = true;
  images[5].staged = true;
  images[6].staged = true;
  images[6].status = 2;
  images[7].staged = true;
  images[8].skipped = {0, 1, 2, 3, 4};
  images[9].skipped = {5};
  images[66].status = 7;
  ExpectSameAsCpu(params, images);
}

}  // namespace
}  // namespace endcap
