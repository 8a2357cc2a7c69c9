// Raw heads to output rows by the GPU's kernels: the same as Postprocessor, byte for byte.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "detection_harness.h"

namespace endcap {
namespace {

using testing::ExpectSameAsCpu;
using testing::FloatTensor;
using testing::RandomHead;
using testing::Results;
using testing::Tensor;
using testing::TestImage;

constexpr std::array<float, 8> kGeometry = {0.5F, 0.5F, 10.0F, 20.0F, 1200.0F, 1100.0F, 1.0F, 0.0F};

PostprocessParams Params(HeadFamily family, int classes) {
  PostprocessParams params;
  params.head.family = family;
  params.head.num_classes = classes;
  params.max_detections = 100;
  return params;
}

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

TestImage End2EndImage(uint32_t seed, int64_t rows, bool half = false) {
  RandomHead random(seed);
  std::vector<float> head;
  for (int64_t k = 0; k < rows; ++k) {
    const auto box = random.Box();
    head.insert(head.end(), {box[0], box[1], box[0] + box[2], box[1] + box[3], random.Score(),
                             std::floor(random.Uniform(0.0F, 6.0F))});
  }
  return {{FloatTensor(head, {rows, 6}, half)}, kGeometry};
}

TEST(DetectionCuda, End2End) {
  auto params = Params(HeadFamily::kEnd2End, 6);
  params.head.score_threshold = 0.05;
  ExpectSameAsCpu(params, {End2EndImage(1, 300), End2EndImage(2, 257, true), End2EndImage(3, 1),
                           End2EndImage(4, 0)});
  params.max_detections = 1500;
  params.head.max_candidates = 1300;
  const Results results = ExpectSameAsCpu(params, {End2EndImage(5, 2500)});
  EXPECT_TRUE(results.items[0].truncated);
  params.head.activation = Activation::kSigmoid;
  ExpectSameAsCpu(params, {End2EndImage(6, 300)});
}

TestImage EfficientNmsImage(uint32_t seed, int64_t rows, int32_t used, bool half = false) {
  RandomHead random(seed);
  std::vector<float> boxes;
  std::vector<float> scores;
  std::vector<int32_t> classes;
  for (int64_t k = 0; k < rows; ++k) {
    const auto box = random.Box();
    boxes.insert(boxes.end(), box.begin(), box.end());
    scores.push_back(random.Score());
    classes.push_back(static_cast<int32_t>(k % 6));
  }
  return {
      {Tensor(std::vector<int32_t>{used}, DType::kInt32, {1}), FloatTensor(boxes, {rows, 4}, half),
       FloatTensor(scores, {rows}, half), Tensor(classes, DType::kInt32, {rows})},
      kGeometry};
}

TEST(DetectionCuda, EfficientNms) {
  auto params = Params(HeadFamily::kEfficientNms, 6);
  ExpectSameAsCpu(params, {EfficientNmsImage(1, 300, 300), EfficientNmsImage(2, 300, 17, true),
                           EfficientNmsImage(3, 300, 0), EfficientNmsImage(4, 100, 101),
                           EfficientNmsImage(5, 100, -1), EfficientNmsImage(6, 0, 0)});
}

TEST(DetectionCuda, Classification) {
  for (const int classes : {1, 5, 1000, 3001}) {
    for (const Activation activation :
         {Activation::kFamilyDefault, Activation::kNone, Activation::kSigmoid}) {
      for (const int top_k : {1, 5, 2000}) {
        auto params = Params(HeadFamily::kClassification, classes);
        params.head.activation = activation;
        params.head.top_k = std::min(top_k, classes);
        RandomHead random(static_cast<uint32_t>(classes));
        std::vector<float> logits;
        for (int c = 0; c < classes; ++c) {
          logits.push_back(std::floor(random.Uniform(-90.0F, 90.0F)) / 8.0F);  // -0 as well
        }
        ExpectSameAsCpu(params, {{{FloatTensor(logits, {classes})}, std::nullopt},
                                 {{FloatTensor(logits, {classes}, true)}, std::nullopt}});
      }
    }
  }
}

TEST(DetectionCuda, ClassificationMultiLabel) {
  for (const int classes : {1, 5, 255, 257, 1000}) {
    for (const Activation activation : {Activation::kNone, Activation::kSigmoid}) {
      for (const double threshold : {0.0, 0.25, 0.5, 1.0}) {
        auto params = Params(HeadFamily::kClassification, classes);
        params.head.multi_label = true;
        params.head.activation = activation;
        params.head.score_threshold = threshold;
        params.head.top_k = (classes + 1) / 2;
        params.head.max_candidates = 3;  // not for classes
        RandomHead random(static_cast<uint32_t>(classes));
        std::vector<float> logits;
        for (int c = 0; c < classes; ++c) {
          logits.push_back(std::floor(random.Uniform(-30.0F, 10.0F)) / 8.0F);  // 0.25 and ties
        }
        ExpectSameAsCpu(params, {{{FloatTensor(logits, {classes})}, std::nullopt},
                                 {{FloatTensor(logits, {classes}, true)}, std::nullopt},
                                 {{}, std::nullopt, false, 3}});
      }
    }
  }
}

}  // namespace
}  // namespace endcap
