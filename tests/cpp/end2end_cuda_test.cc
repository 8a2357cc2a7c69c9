// Heads that need no suppression, and classifiers, to output rows by the GPU's kernels: the same as
// Postprocessor, byte for byte.

#include <gtest/gtest.h>

#include <algorithm>
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
using testing::Tensor;
using testing::TestImage;

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

TEST(End2EndCuda, End2End) {
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

TEST(End2EndCuda, BoxesWithoutAreaAreDropped) {
  auto params = Params(HeadFamily::kEnd2End, 6);
  params.head.score_threshold = 0.0;
  for (const int most : {50, 3000}) {
    params.max_detections = most;
    TestImage image = End2EndImage(7, 2500);
    image.geometry = {1.0F, 0.5F, 200.0F, 300.0F, 120.0F, 200.0F, 1.0F, 0.0F};
    const Results results = ExpectSameAsCpu(params, {image});
    EXPECT_GE(results.items[0].num_detections, 50);
    EXPECT_LT(results.items[0].num_detections, 1000);
  }
}

// Rows [K, 6+extra]; with an angle behind the class, boxes are centres and sizes.
TestImage RowsWithExtra(uint32_t seed, int64_t rows, int64_t extra, bool rotated = false,
                        bool half = false) {
  RandomHead random(seed);
  std::vector<float> head;
  for (int64_t k = 0; k < rows; ++k) {
    const auto box = random.Box();
    head.insert(head.end(), box.begin(), box.begin() + 2);
    head.push_back(rotated ? box[2] : box[0] + box[2]);
    head.push_back(rotated ? box[3] : box[1] + box[3]);
    head.push_back(random.Score());
    head.push_back(std::floor(random.Uniform(0.0F, 6.0F)));
    for (int64_t i = 0; i < extra; ++i) head.push_back(random.Uniform(-3.0F, 3.0F));
  }
  return {{FloatTensor(head, {rows, 6 + extra}, half)}, kGeometry};
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

float& Value(TestImage& image, int64_t row, int64_t column) {
  auto* values = reinterpret_cast<float*>(image.head[0].bytes.data());
  return values[row * image.head[0].shape[1] + column];
}

TEST(End2EndCuda, End2EndWithKeypoints) {
  auto params = Params(HeadFamily::kEnd2EndPose, 6);
  params.head.num_keypoints = 4;
  for (const int values : {2, 3}) {
    params.head.keypoint_values = values;
    const int64_t extra = 4 * values;
    TestImage without = RowsWithExtra(3, 40, extra);
    without.geometry.reset();
    const Results results = ExpectSameAsCpu(
        params, {RowsWithExtra(1, 300, extra), RowsWithExtra(2, 257, extra, false, true), without,
                 RowsWithExtra(4, 0, extra)});
    EXPECT_GT(results.items[0].num_detections, 90);
  }
  TestImage bad = RowsWithExtra(5, 30, 12);
  for (int64_t row = 0; row < 30; ++row) Value(bad, row, 9) = row % 3 == 0 ? kInf : kNan;
  TestImage unread = RowsWithExtra(6, 30, 12);
  Value(unread, 7, 4) = 0.0F;
  Value(unread, 7, 11) = kNan;
  TestImage no_class = RowsWithExtra(7, 30, 12);
  Value(no_class, 4, 4) = 0.9F;
  Value(no_class, 4, 5) = 2.5F;
  TestImage no_score = RowsWithExtra(8, 30, 12);
  Value(no_score, 9, 4) = kNan;
  const Results results = ExpectSameAsCpu(params, {bad, unread, no_class, no_score});
  EXPECT_FALSE(results.items[0].status.ok());
  EXPECT_TRUE(results.items[1].status.ok());
  EXPECT_FALSE(results.items[2].status.ok());
  EXPECT_FALSE(results.items[3].status.ok());
}

TEST(End2EndCuda, End2EndWithMasks) {
  auto params = Params(HeadFamily::kEnd2EndSeg, 6);
  params.head.mask_coefficients = 5;
  params.head.prototype_height = 40;
  params.head.prototype_width = 48;
  params.max_detections = 20;
  const auto with_prototypes = [](TestImage image, uint32_t seed) {
    RandomHead random(seed);
    std::vector<float> prototypes;
    for (int i = 0; i < 5 * 40 * 48; ++i) prototypes.push_back(random.Uniform(-1.0F, 1.0F));
    image.head.push_back(FloatTensor(prototypes, {5, 40, 48}));
    return image;
  };
  TestImage bad = with_prototypes(RowsWithExtra(4, 12, 5), 4);
  for (int64_t row = 0; row < 12; ++row) Value(bad, row, 7) = kInf;
  for (const MaskResolution resolution :
       {MaskResolution::kPrototype, MaskResolution::kInput, MaskResolution::kSource}) {
    params.mask_resolution = resolution;
    const Results results =
        ExpectSameAsCpu(params, {with_prototypes(RowsWithExtra(1, 100, 5), 1),
                                 with_prototypes(RowsWithExtra(2, 9, 5, false, true), 2),
                                 with_prototypes(RowsWithExtra(3, 0, 5), 3), bad});
    EXPECT_EQ(results.items[0].num_detections, 20);
    size_t characters = 0;
    for (const std::string& rle : results.rles[0]) characters += rle.size();
    EXPECT_GT(characters, 200);
    EXPECT_FALSE(results.items[3].status.ok());
  }
}

TEST(End2EndCuda, End2EndWithAngles) {
  auto params = Params(HeadFamily::kEnd2EndObb, 6);
  params.head.score_threshold = 0.05;
  TestImage without = RowsWithExtra(3, 40, 1, true);
  without.geometry.reset();
  ExpectSameAsCpu(params, {RowsWithExtra(1, 300, 1, true), RowsWithExtra(2, 257, 1, true, true),
                           without, RowsWithExtra(4, 1, 1, true), RowsWithExtra(5, 0, 1, true)});
  params.max_detections = 1500;
  params.head.max_candidates = 1300;
  const Results many = ExpectSameAsCpu(params, {RowsWithExtra(6, 2500, 1, true)});
  EXPECT_TRUE(many.items[0].truncated);
  TestImage bad = RowsWithExtra(7, 30, 1, true);
  for (int64_t row = 0; row < 30; ++row) Value(bad, row, 6) = kNan;
  EXPECT_FALSE(ExpectSameAsCpu(params, {bad}).items[0].status.ok());
}

TestImage DetectionsImage(uint32_t seed, int64_t rows, int64_t least, bool wide) {
  RandomHead random(seed);
  std::vector<float> boxes;
  std::vector<float> scores;
  std::vector<int64_t> classes;
  for (int64_t k = 0; k < rows; ++k) {
    const auto box = random.Box();
    boxes.insert(boxes.end(), {box[0], box[1], box[0] + box[2], box[1] + box[3]});
    scores.push_back(random.Score());
    classes.push_back(least + k % 7);
  }
  const std::vector<int32_t> narrow(classes.begin(), classes.end());
  return {{FloatTensor(boxes, {rows, 4}), FloatTensor(scores, {rows}),
           wide ? Tensor(classes, DType::kInt64, {rows}) : Tensor(narrow, DType::kInt32, {rows})},
          kGeometry};
}

TEST(End2EndCuda, Detections) {
  for (const Background background :
       {Background::kFamilyDefault, Background::kFirst, Background::kLast}) {
    auto params = Params(HeadFamily::kDetections, background == Background::kFamilyDefault ? 7 : 6);
    params.head.background = background;
    const Results results = ExpectSameAsCpu(
        params, {DetectionsImage(1, 300, 0, true), DetectionsImage(2, 257, 0, false),
                 DetectionsImage(3, 0, 0, true), DetectionsImage(4, 50, -1, true),
                 DetectionsImage(5, 50, 1, true), DetectionsImage(6, 50, int64_t{1} << 32U, true)});
    EXPECT_GT(results.items[0].num_detections, 50);
    EXPECT_FALSE(results.items[3].status.ok());
    EXPECT_FALSE(results.items[4].status.ok());
    EXPECT_FALSE(results.items[5].status.ok());
  }
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

TEST(End2EndCuda, EfficientNms) {
  auto params = Params(HeadFamily::kEfficientNms, 6);
  ExpectSameAsCpu(params, {EfficientNmsImage(1, 300, 300), EfficientNmsImage(2, 300, 17, true),
                           EfficientNmsImage(3, 300, 0), EfficientNmsImage(4, 100, 101),
                           EfficientNmsImage(5, 100, -1), EfficientNmsImage(6, 0, 0)});
}

TEST(End2EndCuda, Classification) {
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

// Each step of the block's way to the greatest logit, which softmax wants, decides once.
TEST(End2EndCuda, TheGreatestLogitAnywhere) {
  for (const int place : {0, 1, 2, 3, 7, 8, 16, 33, 64, 129, 255, 256, 511, 699}) {
    std::vector<float> logits(700, -3.0F);
    for (size_t c = 0; c < logits.size(); ++c) logits[c] += static_cast<float>(c % 13) / 8.0F;
    logits[static_cast<size_t>(place)] = 4.0F;
    auto params = Params(HeadFamily::kClassification, 700);
    params.head.activation = Activation::kFamilyDefault;
    params.head.top_k = 5;
    ExpectSameAsCpu(params, {{{FloatTensor(logits, {700})}, std::nullopt}});
  }
}

TEST(End2EndCuda, ClassificationMultiLabel) {
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
