// What is wrong with a head of rtdetr or ssd, found by the GPU's kernels: the scalar
// implementation's status and message.

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "detection_harness.h"
#include "endcap/implementation.h"
#include "score_row_images.h"

namespace endcap {
namespace {

using testing::ExpectSameAsCpu;
using testing::FloatTensor;
using testing::MakeScoreRows;
using testing::Results;
using testing::ScoreRowHead;
using testing::ScoreRowParams;
using testing::TestImage;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class ScoreRowsFaults : public ::testing::Test {
 protected:
  ScoreRowsFaults() { ForceImplementation("scalar"); }
  ~ScoreRowsFaults() override { ForceImplementation("auto"); }
};

std::vector<PostprocessParams> EveryForm() {
  std::vector<PostprocessParams> forms;
  for (const bool multi_label : {false, true}) {
    for (const Activation activation :
         {Activation::kNone, Activation::kSigmoid, Activation::kSoftmax}) {
      for (const Background background : {Background::kNone, Background::kFirst}) {
        PostprocessParams params = ScoreRowParams(HeadFamily::kSsd, 10);
        params.head.multi_label = multi_label;
        params.head.activation = activation;
        params.head.background = background;
        forms.push_back(params);
        params.head.family = HeadFamily::kRtdetr;
        forms.push_back(params);
        params.head.joined = true;
        forms.push_back(params);
      }
    }
  }
  return forms;
}

TEST_F(ScoreRowsFaults, NanAnywhere) {
  for (const PostprocessParams& params : EveryForm()) {
    const ScoreRowHead head = MakeScoreRows(params, 45, 1);
    std::vector<TestImage> images;
    const auto spoil = [&](std::vector<float> ScoreRowHead::* tensor, std::vector<size_t> places) {
      ScoreRowHead bad = head;
      for (const size_t place : places) {
        std::vector<float>& values = bad.*tensor;
        values[std::min(place, values.size() - 1)] = kNan;
      }
      images.push_back(bad.Image());
      images.push_back(bad.Image(/*half=*/true));
    };
    for (const size_t place : {0U, 120U, 100000U}) {
      spoil(&ScoreRowHead::scores, {place});
      spoil(&ScoreRowHead::boxes, {place});
      spoil(&ScoreRowHead::scores, {place, 300, 200, 17});
    }
    if (params.head.family == HeadFamily::kSsd) spoil(&ScoreRowHead::anchors, {100, 7});
    const Results results = ExpectSameAsCpu(params, images);
    for (const PostprocessItem& item : results.items) {
      EXPECT_NE(item.status.message.find("NaN at element"), std::string::npos)
          << item.status.message;
    }
  }
}

TEST_F(ScoreRowsFaults, ScoresComeBeforeBoxesAndBoxesBeforeAnchors) {
  for (const HeadFamily family : {HeadFamily::kRtdetr, HeadFamily::kSsd}) {
    const PostprocessParams params = ScoreRowParams(family, 4);
    ScoreRowHead head = MakeScoreRows(params, 45, 2);
    std::vector<TestImage> images;
    head.anchors[5] = kNan;
    head.boxes[9] = kNan;
    images.push_back(head.Image());
    head.scores[70] = kNan;
    images.push_back(head.Image());
    const Results results = ExpectSameAsCpu(params, images);
    EXPECT_EQ(results.items[0].status.message, "boxes is NaN at element 9");
    EXPECT_EQ(results.items[1].status.message, family == HeadFamily::kSsd
                                                   ? "scores is NaN at element 70"
                                                   : "logits is NaN at element 70");
  }
}

TEST_F(ScoreRowsFaults, InfiniteNumbers) {
  for (const PostprocessParams& params : EveryForm()) {
    std::vector<TestImage> images;
    for (const float value : {kInf, -kInf}) {
      for (const int64_t row : {13, 44}) {
        ScoreRowHead score = MakeScoreRows(params, 45, 3);
        score.Score(row, 3) = value;
        images.push_back(score.Image());
        ScoreRowHead box = MakeScoreRows(params, 45, 3);
        box.boxes[static_cast<size_t>(4 * row + 1)] = value;
        images.push_back(box.Image());
        ScoreRowHead whole = MakeScoreRows(params, 45, 3);
        for (int64_t c = 0; c < whole.columns(); ++c) whole.Score(row, c) = value;
        if (row == 13) whole.Score(row, 2) = -kInf;
        images.push_back(whole.Image());
      }
    }
    ExpectSameAsCpu(params, images);
  }
}

TEST_F(ScoreRowsFaults, ASoftmaxNeedsAFiniteGreatestScore) {
  PostprocessParams params = ScoreRowParams(HeadFamily::kSsd, 4);
  ScoreRowHead head = MakeScoreRows(params, 45, 4);
  std::vector<TestImage> images;
  head.boxes[0] = kInf;  // said later
  for (int64_t c = 0; c < head.columns(); ++c) head.Score(30, c) = -kInf;
  images.push_back(head.Image());
  head.Score(29, 0) = kInf;
  images.push_back(head.Image());
  const Results results = ExpectSameAsCpu(params, images);
  EXPECT_EQ(results.items[0].status.message,
            "the greatest score of row 30 is -inf: a softmax needs a finite one");
  EXPECT_EQ(results.items[1].status.message,
            "the greatest score of row 29 is inf: a softmax needs a finite one");
}

TEST_F(ScoreRowsFaults, BadBoxesAreForgivenBeyondMaxCandidates) {
  PostprocessParams params = ScoreRowParams(HeadFamily::kRtdetr, 2);
  params.head.activation = Activation::kNone;
  ScoreRowHead head = MakeScoreRows(params, 200, 5);
  for (int64_t row = 0; row < 200; ++row) {
    head.Score(row, 0) = 0.3F + static_cast<float>(row) / 400.0F;
    head.Score(row, 1) = 0.0F;
  }
  head.boxes[4 * 50 + 2] = kInf;  // 149 candidates are better
  for (const int most : {1, 148, 149, 150, 1000}) {
    params.head.max_candidates = most;
    const Results results = ExpectSameAsCpu(params, {head.Image()});
    EXPECT_EQ(results.items[0].status.ok(), most <= 149);
  }
}

TEST_F(ScoreRowsFaults, BoxesAtAnchorsThatOverflow) {
  const PostprocessParams params = ScoreRowParams(HeadFamily::kSsd, 2);
  ScoreRowHead head = MakeScoreRows(params, 40, 6);
  for (int64_t row = 0; row < 40; ++row) head.Score(row, 1) = 9.0F;
  head.anchors[4 * 20 + 2] = 3e38F;
  head.boxes[4 * 20] = 100.0F;
  EXPECT_EQ(ExpectSameAsCpu(params, {head.Image()}).items[0].status.message,
            "the box of candidate 20 is not finite");
}

TEST_F(ScoreRowsFaults, RowsThatDifferAreRefusedAtOnce) {
  const std::vector<float> numbers(1000, 0.5F);
  const auto of = [&](int64_t rows, int64_t columns) {
    return FloatTensor({numbers.begin(), numbers.begin() + rows * columns}, {rows, columns});
  };
  const PostprocessParams rtdetr = ScoreRowParams(HeadFamily::kRtdetr, 3);
  const PostprocessParams ssd = ScoreRowParams(HeadFamily::kSsd, 3);
  PostprocessParams decoded = ssd;
  decoded.head.anchors = AnchorSource::kNone;
  const std::vector<std::pair<PostprocessParams, TestImage>> cases = {
      {rtdetr, {{of(5, 3), of(6, 4)}, {}}},
      {ssd, {{of(5, 4), of(6, 4), of(5, 4)}, {}}},
      {ssd, {{of(5, 4), of(5, 4), of(6, 4)}, {}}},
      {decoded, {{of(5, 4), of(6, 4)}, {}}}};
  for (const auto& [params, image] : cases) {
    const std::string expected = testing::RunOnCpu(params, {image}).items[0].status.message;
    EXPECT_NE(expected.find(": they must have as many"), std::string::npos);
    try {
      testing::RunKernels(params, {image});
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), expected);
    }
  }
}

}  // namespace
}  // namespace endcap
