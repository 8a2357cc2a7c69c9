// Heads that need no suppression, and classifiers, to output rows by the GPU's kernels: the same as
// Postprocessor, byte for byte.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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

TEST(UnsuppressedCuda, End2End) {
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

TEST(UnsuppressedCuda, EfficientNms) {
  auto params = Params(HeadFamily::kEfficientNms, 6);
  ExpectSameAsCpu(params, {EfficientNmsImage(1, 300, 300), EfficientNmsImage(2, 300, 17, true),
                           EfficientNmsImage(3, 300, 0), EfficientNmsImage(4, 100, 101),
                           EfficientNmsImage(5, 100, -1), EfficientNmsImage(6, 0, 0)});
}

TEST(UnsuppressedCuda, Classification) {
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
TEST(UnsuppressedCuda, TheGreatestLogitAnywhere) {
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

TEST(UnsuppressedCuda, ClassificationMultiLabel) {
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
