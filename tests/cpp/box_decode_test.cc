#include "endcap/box_decode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "box_decode/score_rows.h"
#include "error_matchers.h"

namespace endcap {
namespace {

using testing::Throws;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <typename T>
ConstTensorView View(const std::vector<T>& values, DType dtype, std::vector<int64_t> shape) {
  ConstTensorView view;
  view.data = values.data();
  view.dtype = dtype;
  view.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  return view;
}

ConstTensorView Floats(const std::vector<float>& values, std::vector<int64_t> shape) {
  return View(values, DType::kFloat32, std::move(shape));
}

HeadParams Params(HeadFamily family, int num_classes) {
  HeadParams params;
  params.family = family;
  params.num_classes = num_classes;
  return params;
}

Candidates Decode(const HeadParams& params, const std::vector<ConstTensorView>& inputs) {
  Candidates candidates;
  BoxDecode(params, inputs, candidates);
  return candidates;
}

// Three anchors, two classes, [4+2, 3].
const std::vector<float> kYolov8Head = {10,   20,   30,    // cx
                                        11,   21,   31,    // cy
                                        4,    8,    2,     // w
                                        2,    4,    6,     // h
                                        0.3F, 0.9F, 0.1F,  // class 0
                                        0.6F, 0.9F, 0.2F};

TEST(Yolov8, ReadsColumnsAsAnchors) {
  const auto found = Decode(Params(HeadFamily::kYolov8, 2), {Floats(kYolov8Head, {6, 3})});
  EXPECT_EQ(found.indices, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(found.class_ids, (std::vector<int32_t>{0, 1}));  // a tie goes to the lower class
  EXPECT_EQ(found.scores, (std::vector<float>{0.9F, 0.6F}));
  EXPECT_EQ(found.boxes_xyxy, (std::vector<float>{16, 19, 24, 23, 8, 10, 12, 12}));
  EXPECT_FALSE(found.truncated);
}

TEST(Yolov8, MultiLabelGivesEveryClassOverTheThreshold) {
  HeadParams params = Params(HeadFamily::kYolov8, 2);
  params.multi_label = true;
  const auto found = Decode(params, {Floats(kYolov8Head, {6, 3})});
  EXPECT_EQ(found.indices, (std::vector<int32_t>{1, 1, 0, 0}));
  EXPECT_EQ(found.class_ids, (std::vector<int32_t>{0, 1, 1, 0}));
}

TEST(Yolov8, MaxCandidatesKeepsTheBest) {
  HeadParams params = Params(HeadFamily::kYolov8, 2);
  params.max_candidates = 1;
  const auto found = Decode(params, {Floats(kYolov8Head, {6, 3})});
  EXPECT_EQ(found.indices, (std::vector<int32_t>{1}));
  EXPECT_TRUE(found.truncated);
}

TEST(Yolov8, AScoreEqualToTheThresholdIsNoCandidate) {
  HeadParams params = Params(HeadFamily::kYolov8, 1);
  const float over = std::nextafter(0.25F, 1.0F);
  const std::vector<float> head = {9, 9, 9, 9, 2, 2, 2, 2, 0.25F, over};
  EXPECT_EQ(Decode(params, {Floats(head, {5, 2})}).indices, (std::vector<int32_t>{1}));
}

TEST(Yolov8, NoAnchorsIsNoCandidate) {
  const auto found = Decode(Params(HeadFamily::kYolov8, 2), {Floats({}, {6, 0})});
  EXPECT_EQ(found.size(), 0U);
}

TEST(Yolov8, ReplacesWhatWasInTheResult) {
  Candidates reused;
  const HeadParams params = Params(HeadFamily::kYolov8, 2);
  BoxDecode(params, {Floats(kYolov8Head, {6, 3})}, reused);
  BoxDecode(params, {Floats(kYolov8Head, {6, 3})}, reused);
  EXPECT_EQ(reused.size(), 2U);
  EXPECT_EQ(reused.boxes_xyxy.size(), 8U);
}

TEST(Yolov8, ReadsHalves) {
  // 0x4900 = 10, 0x4400 = 4, 0x3800 = 0.5.
  const std::vector<uint16_t> head = {0x4900, 0x4900, 0x4400, 0x4400, 0x3800};
  const auto found = Decode(Params(HeadFamily::kYolov8, 1), {View(head, DType::kFloat16, {5, 1})});
  EXPECT_EQ(found.boxes_xyxy, (std::vector<float>{8, 8, 12, 12}));
  EXPECT_EQ(found.scores, (std::vector<float>{0.5F}));
}

TEST(Yolov8, NormalizedBoxesAreScaledToTheInput) {
  HeadParams params = Params(HeadFamily::kYolov8, 1);
  params.box_unit = BoxUnit::kNormalized;
  params.input_height = 64;
  params.input_width = 128;
  const auto found = Decode(params, {Floats({0.5F, 0.5F, 0.25F, 0.5F, 0.9F}, {5, 1})});
  EXPECT_EQ(found.boxes_xyxy, (std::vector<float>{48, 16, 80, 48}));
}

TEST(Yolov5, ScoreIsObjectnessTimesClass) {
  const std::vector<float> head = {10, 10, 4, 4, 0.5F, 0.9F, 0.2F,   // 0.45
                                   20, 20, 4, 4, 0.9F, 0.1F, 0.8F,   // 0.72
                                   30, 30, 4, 4, 0.2F, 1.0F, 1.0F};  // 0.2
  const auto found = Decode(Params(HeadFamily::kYolov5, 2), {Floats(head, {3, 7})});
  EXPECT_EQ(found.indices, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(found.class_ids, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(found.scores, (std::vector<float>{0.9F * 0.8F, 0.5F * 0.9F}));
}

TEST(End2End, RowsAreDetectionsAlready) {
  const std::vector<float> head = {1, 2, 3, 4, 0.3F, 5, 6, 7, 8, 9, 0.8F, 2, 0, 0, 1, 1, 0.1F, 0};
  const auto found = Decode(Params(HeadFamily::kEnd2End, 6), {Floats(head, {3, 6})});
  EXPECT_EQ(found.indices, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(found.class_ids, (std::vector<int32_t>{2, 5}));
  EXPECT_EQ(found.boxes_xyxy, (std::vector<float>{6, 7, 8, 9, 1, 2, 3, 4}));
}

TEST(End2End, AClassOutsideNumClassesIsRefused) {
  for (const float class_id : {-1.0F, 6.0F, 1.5F, 1e20F}) {
    const std::vector<float> head = {1, 2, 3, 4, 0.8F, class_id};
    EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "class",
                       [&] { Decode(Params(HeadFamily::kEnd2End, 6), {Floats(head, {1, 6})}); }));
  }
}

struct EfficientNms {
  std::vector<int32_t> count{2};
  std::vector<float> boxes{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 9, 9};
  std::vector<float> scores{0.9F, 0.5F, 0.8F};
  std::vector<int32_t> classes{3, 1, 0};

  std::vector<ConstTensorView> Views() const {
    return {View(count, DType::kInt32, {1}), Floats(boxes, {3, 4}), Floats(scores, {3}),
            View(classes, DType::kInt32, {3})};
  }
};

TEST(EfficientNmsFamily, OnlyTheCountedRowsPass) {
  const auto found = Decode(Params(HeadFamily::kEfficientNms, 4), EfficientNms().Views());
  EXPECT_EQ(found.indices, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(found.class_ids, (std::vector<int32_t>{3, 1}));
  EXPECT_EQ(found.boxes_xyxy, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(EfficientNmsFamily, ImpossibleCountsAndClassesAreRefused) {
  const auto refused = [](const EfficientNms& outputs) {
    return Throws(ErrorCode::kInvalidArgument, "",
                  [&] { Decode(Params(HeadFamily::kEfficientNms, 4), outputs.Views()); });
  };
  EXPECT_TRUE(refused({.count = {4}}));
  EXPECT_TRUE(refused({.count = {-1}}));
  EXPECT_TRUE(refused({.classes = {4, 1, 0}}));
}

TEST(BadHeads, AreRefusedWithTheirShape) {
  const HeadParams params = Params(HeadFamily::kYolov8, 2);
  const std::vector<float> zeros(30, 0.0F);
  const auto code = ErrorCode::kInvalidArgument;
  const auto decode = [&](const ConstTensorView& view) { Decode(params, {view}); };
  EXPECT_TRUE(Throws(code, "[5, 3]", [&] { decode(Floats(zeros, {5, 3})); }));
  EXPECT_TRUE(Throws(code, "head", [&] { decode(Floats(zeros, {6})); }));
  EXPECT_TRUE(Throws(code, "head", [&] { decode(Floats(zeros, {1, 6, 3})); }));
  EXPECT_TRUE(Throws(code, "int32", [&] { decode(View(zeros, DType::kInt32, {6, 3})); }));
  EXPECT_TRUE(Throws(code, "tensors", [&] { Decode(params, {}); }));
}

TEST(BadHeads, NanAnywhereIsRefused) {
  for (size_t i = 0; i < kYolov8Head.size(); ++i) {
    std::vector<float> head = kYolov8Head;
    head[i] = kNan;
    EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "NaN",
                       [&] { Decode(Params(HeadFamily::kYolov8, 2), {Floats(head, {6, 3})}); }));
  }
}

TEST(BadHeads, AnInfiniteBoxIsRefusedWhenItIsACandidate) {
  std::vector<float> head = kYolov8Head;
  head[2] = kInf;  // anchor 2 is under the threshold
  EXPECT_EQ(Decode(Params(HeadFamily::kYolov8, 2), {Floats(head, {6, 3})}).size(), 2U);
  head[1] = kInf;
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "finite",
                     [&] { Decode(Params(HeadFamily::kYolov8, 2), {Floats(head, {6, 3})}); }));
}

TEST(Classify, SoftmaxThenBestFirst) {
  HeadParams params = Params(HeadFamily::kClassification, 4);
  params.top_k = 3;
  const std::vector<float> logits = {0, std::log(3.0F), 0, std::log(5.0F)};  // 1 : 3 : 1 : 5
  ClassScores result;
  Classify(params, Floats(logits, {4}), result);
  EXPECT_EQ(result.class_ids, (std::vector<int32_t>{3, 1, 0}));
  ASSERT_EQ(result.scores.size(), 3U);
  EXPECT_NEAR(result.scores[0], 0.5F, 1e-6F);
  EXPECT_NEAR(result.scores[1], 0.3F, 1e-6F);
  EXPECT_NEAR(result.scores[2], 0.1F, 1e-6F);
}

TEST(Classify, WithoutActivationScoresAreAsGiven) {
  HeadParams params = Params(HeadFamily::kClassification, 3);
  params.top_k = 3;
  params.activation = Activation::kNone;
  ClassScores result;
  Classify(params, Floats({7, -2, 7}, {3}), result);
  EXPECT_EQ(result.class_ids, (std::vector<int32_t>{0, 2, 1}));
  EXPECT_EQ(result.scores, (std::vector<float>{7, 7, -2}));
}

TEST(Classify, WithMultiLabelOnlyClassesOverTheThreshold) {
  HeadParams params = Params(HeadFamily::kClassification, 5);
  params.top_k = 3;
  params.activation = Activation::kNone;
  params.multi_label = true;
  params.score_threshold = 0.5;
  ClassScores result;
  const std::vector<float> scores = {0.5F, 0.75F, 0.25F, 0.875F, 0.75F};
  Classify(params, Floats(scores, {5}), result);
  EXPECT_EQ(result.class_ids, (std::vector<int32_t>{3, 1, 4}));
  EXPECT_EQ(result.scores, (std::vector<float>{0.875F, 0.75F, 0.75F}));
  EXPECT_EQ(result.probabilities, scores);
  params.score_threshold = 0.8;
  Classify(params, Floats(scores, {5}), result);
  EXPECT_EQ(result.class_ids, (std::vector<int32_t>{3}));
  params.score_threshold = 0.875;  // not greater
  Classify(params, Floats(scores, {5}), result);
  EXPECT_TRUE(result.class_ids.empty());
  EXPECT_TRUE(result.scores.empty());
  EXPECT_EQ(result.probabilities, scores);
}

// Nothing may be added to a null pointer, not even to form one that is never read.
TEST(ScoreRows, WithoutRowsHaveNoAddress) {
  HeadParams params = Params(HeadFamily::kSsd, 3);
  params.background = Background::kFirst;
  std::vector<float> memory;
  const TensorSpec spec{"scores", DType::kFloat32, {-1, 8}, 2};
  ConstTensorView view;
  view.rank = 2;
  view.shape = {0, 8};
  const HeadInput head(spec, view, memory);
  EXPECT_EQ(ScoreRows(params, head, 4).first, nullptr);
  const std::vector<float> values(16);
  const HeadInput rows(spec, Floats(values, {2, 8}), memory);
  EXPECT_EQ(ScoreRows(params, rows, 4).first, values.data() + 5);
}

}  // namespace
}  // namespace endcap
