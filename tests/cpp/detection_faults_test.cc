// What is wrong with a head, found by the GPU's kernels: the same status, and the same message, as
// the CPU implementation gives.

#include <gtest/gtest.h>

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

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

PostprocessParams Params(HeadFamily family, int classes) {
  PostprocessParams params;
  params.head.family = family;
  params.head.num_classes = classes;
  params.max_detections = 20;
  return params;
}

// The images with `value` at one of the places each, and one without.
std::vector<TestImage> WithValueAt(const std::vector<float>& head, std::vector<int64_t> shape,
                                   const std::vector<size_t>& places, float value) {
  std::vector<TestImage> images = {{{FloatTensor(head, shape)}, std::nullopt}};
  for (const size_t place : places) {
    for (const bool half : {false, true}) {
      auto bad = head;
      bad[place] = value;
      images.push_back({{FloatTensor(bad, shape, half)}, std::nullopt});
    }
  }
  return images;
}

void ExpectAllBadButTheFirst(const Results& results, const std::string& part) {
  EXPECT_TRUE(results.items[0].status.ok());
  for (size_t i = 1; i < results.items.size(); ++i) {
    EXPECT_EQ(results.items[i].status.code, ErrorCode::kInvalidArgument);
    EXPECT_NE(results.items[i].status.message.find(part), std::string::npos)
        << results.items[i].status.message;
  }
}

TEST(DetectionFaults, ScoresThatAreNotANumber) {
  RandomHead random(3);
  auto head = random.Yolov5(4, 100);
  head[9 * 70 + 4] = 0.0F;
  head[9 * 70 + 6] = kInf;
  head[9 * 80 + 4] = kInf;
  head[9 * 80 + 6] = 0.0F;
  for (const bool multi_label : {false, true}) {
    auto params = Params(HeadFamily::kYolov5, 4);
    params.head.multi_label = multi_label;
    const Results results =
        ExpectSameAsCpu(params, {{{FloatTensor(head, {100, 9})}, std::nullopt}});
    EXPECT_EQ(results.items[0].status.message, "the score of anchor 70 is not a number");
    params.head.activation = Activation::kSigmoid;
    EXPECT_TRUE(ExpectSameAsCpu(params, {{{FloatTensor(head, {100, 9})}, std::nullopt}})
                    .items[0]
                    .status.ok());
  }
}

TEST(DetectionFaults, InfiniteScoresAndBoxes) {
  RandomHead random(4);
  const auto head = random.Yolov8(2, 200);
  std::vector<TestImage> images;
  for (const bool half : {false, true}) {
    auto bad = head;
    bad[100] = kInf;  // a box
    for (size_t a = 20; a < 40; ++a) bad[4 * 200 + a] = 0.9F;
    bad[200 + 30] = -kInf;  // a better candidate's box
    images.push_back({{FloatTensor(bad, {6, 200}, half)}, std::nullopt});
    bad[5 * 200 + 150] = kInf;  // a score: the best there is
    images.push_back({{FloatTensor(bad, {6, 200}, half)}, std::nullopt});
    bad = head;
    bad[100] = kInf;
    bad[4 * 200 + 100] = bad[5 * 200 + 100] = 0.01F;  // no candidate
    images.push_back({{FloatTensor(bad, {6, 200}, half)}, std::nullopt});
  }
  for (const bool multi_label : {false, true}) {
    auto params = Params(HeadFamily::kYolov8, 2);
    params.head.multi_label = multi_label;
    const Results results = ExpectSameAsCpu(params, images);
    EXPECT_EQ(results.items[0].status.message, "the box of candidate 30 is not finite");
    EXPECT_EQ(results.items[1].status.message, "the score of candidate 150 is not finite");
    EXPECT_TRUE(results.items[2].status.ok());
  }
}

TEST(DetectionFaults, BadBoxesAreForgivenBeyondMaxCandidates) {
  RandomHead random(5);
  auto head = random.Yolov8(1, 1500);
  for (size_t a = 0; a < 1500; ++a) {
    head[4 * 1500 + a] = 0.3F + static_cast<float>(a) / 3000.0F;  // the last is the best
  }
  head[99] = kInf;  // 1400 candidates are better
  auto params = Params(HeadFamily::kYolov8, 1);
  params.max_detections = 3;  // long before it
  for (const int most : {1, 1399, 1400, 1401, 5000}) {
    params.head.max_candidates = most;
    const Results results = ExpectSameAsCpu(params, {{{FloatTensor(head, {5, 1500})}, {}}});
    EXPECT_EQ(results.items[0].status.ok(), most <= 1400);
  }
}

TEST(DetectionFaults, BoxesThatOverflow) {
  RandomHead random(6);
  auto head = random.Yolov8(1, 50);
  for (size_t a = 0; a < 50; ++a) head[4 * 50 + a] = 0.9F;
  head[20] = 3e38F;
  head[2 * 50 + 20] = 3e38F;  // half of it more
  auto params = Params(HeadFamily::kYolov8, 1);
  EXPECT_FALSE(ExpectSameAsCpu(params, {{{FloatTensor(head, {5, 50})}, {}}}).items[0].status.ok());
  params.head.box_format = BoxFormat::kXyxy;
  EXPECT_TRUE(ExpectSameAsCpu(params, {{{FloatTensor(head, {5, 50})}, {}}}).items[0].status.ok());
  params.head.box_unit = BoxUnit::kNormalized;
  EXPECT_FALSE(ExpectSameAsCpu(params, {{{FloatTensor(head, {5, 50})}, {}}}).items[0].status.ok());
}

TEST(DetectionFaults, ClassesThatTheHeadDoesNotHave) {
  std::vector<float> head;
  for (int k = 0; k < 300; ++k) {
    head.insert(head.end(), {1, 2, 30, 40, 0.5F, static_cast<float>(k % 6)});
  }
  const auto params = Params(HeadFamily::kEnd2End, 6);
  std::vector<TestImage> images = {{{FloatTensor(head, {300, 6})}, {}}};
  for (const float c : {6.0F, -1.0F, 2.5F, kInf, 1e9F}) {
    auto bad = head;
    bad[6 * 270 + 5] = bad[6 * 290 + 5] = c;
    images.push_back({{FloatTensor(bad, {300, 6})}, {}});
  }
  ExpectAllBadButTheFirst(ExpectSameAsCpu(params, images), "row 270 has class");
  ExpectAllBadButTheFirst(
      ExpectSameAsCpu(params, WithValueAt(head, {300, 6}, {0, 6 * 260 + 5, 1799}, kNan)),
      "NaN at element");
}

TestImage EfficientNmsImage(int32_t used, size_t nan_box, size_t nan_score, int32_t last_class) {
  std::vector<float> boxes(4 * 50, 3.0F);
  std::vector<float> scores(50, 0.5F);
  std::vector<int32_t> classes(50, 1);
  boxes.at(nan_box) = kNan;
  scores.at(nan_score) = kNan;
  classes[49] = last_class;
  return {{Tensor(std::vector<int32_t>{used}, DType::kInt32, {1}), FloatTensor(boxes, {50, 4}),
           FloatTensor(scores, {50}), Tensor(classes, DType::kInt32, {50})},
          {}};
}

TEST(DetectionFaults, EfficientNms) {
  const auto params = Params(HeadFamily::kEfficientNms, 2);
  const Results results =
      ExpectSameAsCpu(params, {EfficientNmsImage(40, 199, 49, 7), EfficientNmsImage(50, 199, 48, 1),
                               EfficientNmsImage(49, 199, 48, 1), EfficientNmsImage(51, 199, 48, 1),
                               EfficientNmsImage(-3, 0, 0, 1), EfficientNmsImage(40, 199, 40, 1)});
  EXPECT_TRUE(results.items[0].status.ok());
  EXPECT_EQ(results.items[4].status.message, "num_detections is -3: it must not be negative");
}

TEST(DetectionFaults, Logits) {
  std::vector<float> logits(700, -2.0F);
  for (const Activation activation :
       {Activation::kSoftmax, Activation::kNone, Activation::kSigmoid}) {
    auto params = Params(HeadFamily::kClassification, 700);
    params.head.activation = activation;
    ExpectAllBadButTheFirst(
        ExpectSameAsCpu(params, WithValueAt(logits, {700}, {0, 300, 699}, kNan)), "NaN at element");
    ExpectSameAsCpu(params, WithValueAt(logits, {700}, {0, 300, 699}, kInf));
    ExpectSameAsCpu(params, WithValueAt(logits, {700}, {0, 300, 699}, -kInf));
    ExpectSameAsCpu(params, {{{FloatTensor(std::vector<float>(700, -kInf), {700})}, {}}});
    if (activation == Activation::kSoftmax) continue;
    params.head.multi_label = true;
    ExpectAllBadButTheFirst(
        ExpectSameAsCpu(params, WithValueAt(logits, {700}, {0, 300, 699}, kNan)), "NaN at element");
    ExpectSameAsCpu(params, WithValueAt(logits, {700}, {0, 300, 699}, kInf));
  }
}

TEST(DetectionFaults, Geometry) {
  RandomHead random(9);
  const TestImage good = {{FloatTensor(random.Yolov8(2, 30), {6, 30})},
                          std::array<float, 8>{1, 1, 0, 0, 640, 640, 1, 0}};
  std::vector<TestImage> images = {good};
  for (const auto& [element, value] : std::vector<std::pair<size_t, float>>{
           {2, kNan}, {7, kInf}, {0, 0.0F}, {1, -2.5F}, {4, -1.0F}, {5, -0.25F}}) {
    for (const bool on_device : {false, true}) {
      images.push_back(good);
      images.back().geometry_on_device = on_device;
      (*images.back().geometry)[element] = value;
    }
  }
  ExpectAllBadButTheFirst(ExpectSameAsCpu(Params(HeadFamily::kYolov8, 2), images), "geometry");
}

TEST(DetectionFaults, ShapesAndDtypesAreRefusedAtOnce) {
  RandomHead random(10);
  const auto params = Params(HeadFamily::kYolov8, 2);
  const auto head = random.Yolov8(2, 30);
  for (const TestImage& image :
       std::vector<TestImage>{{{FloatTensor(head, {30, 6})}, {}},
                              {{FloatTensor(head, {180})}, {}},
                              {{}, {}},
                              {{Tensor(std::vector<int32_t>(180), DType::kInt32, {6, 30})}, {}}}) {
    EXPECT_THROW(testing::RunOn(testing::kGpu, params, {image}), Error);
  }
}

}  // namespace
}  // namespace endcap
