// Heads of rtdetr and ssd, good ones and faulty ones, on the emulated GPU: the CPU's bytes,
// statuses and messages.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>

#include "box_decode/families.h"
#include "detection_harness.h"

namespace endcap {
namespace {

using testing::ExpectSameAsCpu;
using testing::FloatTensor;
using testing::kGeometry;
using testing::RandomHead;
using testing::Results;
using testing::TestImage;
using testing::TestTensor;

// A head whose numbers can be spoilt one by one.
struct ScoreRowHead {
  PostprocessParams params;
  int64_t rows = 0;
  std::vector<float> scores, boxes, anchors;

  int64_t columns() const { return ScoreColumns(params.head); }
  float& Score(int64_t row, int64_t column) {
    return scores[static_cast<size_t>(row * columns() + column)];
  }

  // The tensors in the order of HeadInputs.
  TestImage Image(bool half = false) const {
    const HeadParams& head = params.head;
    TestImage image;
    const TestTensor score_tensor = FloatTensor(scores, {rows, columns()}, half);
    const TestTensor box_tensor = FloatTensor(boxes, {rows, 4}, half);
    if (head.family == HeadFamily::kSsd) {
      image.head = {box_tensor, score_tensor};
      if (head.anchors == AnchorSource::kInput) {
        image.head.push_back(FloatTensor(anchors, {rows, 4}, half));
      }
    } else if (head.joined) {
      image.head = {FloatTensor(Joined(), {rows, 4 + columns()}, half)};
    } else {
      image.head = {score_tensor, box_tensor};
    }
    return image;
  }

 private:
  std::vector<float> Joined() const {
    std::vector<float> joined;
    const auto append = [&](const std::vector<float>& from, int64_t row, int64_t length) {
      joined.insert(joined.end(), from.begin() + row * length, from.begin() + (row + 1) * length);
    };
    for (int64_t row = 0; row < rows; ++row) {
      append(boxes, row, 4);
      append(scores, row, columns());
    }
    return joined;
  }
};

// Raw scores on a grid, so that many are equal; a background is mostly the greatest, and some rows
// have a class that stands out. Boxes suit the way that they are read.
ScoreRowHead MakeScoreRows(const PostprocessParams& params, int64_t rows, uint32_t seed) {
  ScoreRowHead head = {params, rows, {}, {}, {}};
  RandomHead random(seed);
  const Background background = params.head.ResolvedBackground();
  const int64_t no_object = background == Background::kFirst ? 0 : params.head.num_classes;
  const bool raw = params.head.ResolvedActivation() == Activation::kNone;
  const bool offsets =
      params.head.family == HeadFamily::kSsd && params.head.anchors != AnchorSource::kNone;
  const bool normalized = params.head.ResolvedBoxUnit() == BoxUnit::kNormalized;
  const float unit_x = normalized ? static_cast<float>(params.head.input_width) : 1.0F;
  const float unit_y = normalized ? static_cast<float>(params.head.input_height) : 1.0F;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < head.columns(); ++column) {
      const bool is_background = background != Background::kNone && column == no_object;
      const float score = std::floor(random.Uniform(-24.0F, 8.0F)) / 4.0F;
      head.scores.push_back(raw ? random.Score() : score + (is_background ? 5.0F : 0.0F));
    }
    if (!raw && random.Uniform(0.0F, 1.0F) < 0.3F) {
      const auto column =
          static_cast<int64_t>(random.Uniform(0.0F, 1.0F) * static_cast<float>(head.columns()));
      head.Score(row, std::min(column, head.columns() - 1)) += 7.0F;
    }
    const auto [cx, cy, w, h] = random.Box();
    const std::vector<float> corners = {(cx - w / 2) / unit_x, (cy - h / 2) / unit_y,
                                        (cx + w / 2) / unit_x, (cy + h / 2) / unit_y};
    const std::vector<float> moves = {random.Uniform(-3.0F, 3.0F), random.Uniform(-3.0F, 3.0F),
                                      random.Uniform(-3.0F, 3.0F), random.Uniform(-3.0F, 3.0F)};
    const auto& box = offsets ? moves : corners;
    head.boxes.insert(head.boxes.end(), box.begin(), box.end());
    head.anchors.insert(head.anchors.end(), corners.begin(), corners.end());
  }
  return head;
}

PostprocessParams ScoreRowParams(HeadFamily family, int classes) {
  PostprocessParams params;
  params.head.family = family;
  params.head.num_classes = classes;
  params.max_detections = 50;
  params.head.score_threshold = 0.2;
  return params;
}

class ScoreRowsCuda
    : public ::testing::TestWithParam<std::tuple<HeadFamily, Background, Activation, bool>> {
 protected:
  static PostprocessParams Params(int classes) {
    const auto [family, background, activation, multi_label] = GetParam();
    PostprocessParams params = ScoreRowParams(family, classes);
    params.head.background = background;
    params.head.activation = activation;
    params.head.multi_label = multi_label;
    return params;
  }
};

TEST_P(ScoreRowsCuda, OfAnyLength) {
  for (const int classes : {1, 8, 23}) {
    PostprocessParams params = Params(classes);
    std::vector<TestImage> images;
    uint32_t seed = 1;
    for (const int64_t rows : {0, 1, 5, 16, 101}) {
      images.push_back(MakeScoreRows(params, rows, seed++).Image(rows == 16));
      if (rows > 5) images.back().geometry = kGeometry;
    }
    const Results results = ExpectSameAsCpu(params, images);
    EXPECT_GT(results.items.back().num_detections, 0) << classes;
    params.head.joined = true;
    if (params.head.family == HeadFamily::kRtdetr) {
      ExpectSameAsCpu(params, {MakeScoreRows(params, 37, seed).Image(),
                               MakeScoreRows(params, 18, seed).Image(/*half=*/true)});
    }
  }
}

TEST_P(ScoreRowsCuda, AtEveryThresholdAndTruncated) {
  PostprocessParams params = Params(6);
  const TestImage image = MakeScoreRows(params, 80, 20).Image();
  for (const double threshold : {0.0, 1e-30, 0.95, 1.0}) {
    params.head.score_threshold = threshold;
    ExpectSameAsCpu(params, {image});
  }
  params.head.max_candidates = 7;
  params.head.score_threshold = 0.01;
  EXPECT_TRUE(ExpectSameAsCpu(params, {image}).items[0].truncated);
}

// What is left out before its score is known must not be a candidate: scores that occur, and their
// neighbours below, as the threshold.
TEST_P(ScoreRowsCuda, ScoresThatAreJustOverTheThreshold) {
  PostprocessParams params = Params(2);
  params.head.score_threshold = 0.0;
  params.max_detections = 4;
  const TestImage image = MakeScoreRows(params, 12, 21).Image();
  const auto bytes = testing::RunOnCpu(params, {image}).tensors[0][2];
  std::array<float, 4> scores = {};
  std::memcpy(scores.data(), bytes.data(), sizeof(scores));
  for (const float score : scores) {
    ASSERT_GT(score, 0.0F);
    params.head.score_threshold = std::nextafter(score, 0.0F);
    EXPECT_GT(ExpectSameAsCpu(params, {image}).items[0].num_detections, 0);
    params.head.score_threshold = score;
    ExpectSameAsCpu(params, {image});
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ScoreRowsCuda,
    ::testing::Combine(::testing::Values(HeadFamily::kRtdetr, HeadFamily::kSsd),
                       ::testing::Values(Background::kNone, Background::kFirst, Background::kLast),
                       ::testing::Values(Activation::kNone, Activation::kSigmoid,
                                         Activation::kSoftmax),
                       ::testing::Bool()));

TEST(SsdCuda, EverySourceOfAnchorsFormatAndUnit) {
  for (const AnchorSource source :
       {AnchorSource::kInput, AnchorSource::kGrid, AnchorSource::kNone}) {
    for (const BoxFormat format : {BoxFormat::kXyxy, BoxFormat::kCxcywh}) {
      for (const BoxUnit unit : {BoxUnit::kPixel, BoxUnit::kNormalized}) {
        if (source == AnchorSource::kGrid && unit == BoxUnit::kNormalized) continue;  // refused
        PostprocessParams params = ScoreRowParams(HeadFamily::kSsd, 5);
        params.head.anchors = source;
        params.head.box_format = format;
        params.head.box_unit = unit;
        params.head.variances = {0.1, 0.15, 0.2, 0.3};
        params.head.input_width = 100;
        params.head.input_height = 77;
        if (source == AnchorSource::kGrid) {
          params.head.anchor_grid = {{8.0, {{16.0, 16.0}, {20.5, 10.25}, {11.3, 40.0}}},
                                     {16.5, {{64.0, 48.0}}},
                                     {1000.0, {{90.0, 70.0}, {70.0, 90.0}}}};
          params.head.anchor_offset = 0.37;
        }
        const int64_t given = HeadInputs(params.head)[0].shape[0];
        const int64_t rows = given < 0 ? 300 : given;
        std::vector<TestImage> images = {MakeScoreRows(params, rows, 40).Image(),
                                         MakeScoreRows(params, rows, 41).Image(/*half=*/true)};
        images[0].geometry = kGeometry;
        const Results results = ExpectSameAsCpu(params, images);
        EXPECT_GT(results.items[0].num_detections, 10);
      }
    }
  }
}

TEST(SsdCuda, AGridOfAsManyLevelsAndSizesAsFit) {
  PostprocessParams params = ScoreRowParams(HeadFamily::kSsd, 3);
  params.head.anchors = AnchorSource::kGrid;
  params.head.input_width = 64;
  params.head.input_height = 32;
  for (int level = 0; level < 16; ++level) {
    AnchorLevel of_level{9.0 + level, {}};
    for (int size = 0; size < 8; ++size) of_level.sizes.push_back({5.0 + size, 6.0 + level});
    params.head.anchor_grid.push_back(of_level);
  }
  const int64_t rows = HeadInputs(params.head)[0].shape[0];
  const Results results = ExpectSameAsCpu(params, {MakeScoreRows(params, rows, 42).Image()});
  EXPECT_EQ(results.items[0].num_detections, params.max_detections);
}

TEST(SsdCuda, OffsetsThatMakeHugeBoxes) {
  const PostprocessParams params = ScoreRowParams(HeadFamily::kSsd, 3);
  ScoreRowHead head = MakeScoreRows(params, 60, 43);
  for (size_t i = 0; i < head.boxes.size(); i += 3) head.boxes[i] *= 1000.0F;
  EXPECT_GT(ExpectSameAsCpu(params, {head.Image()}).items[0].num_detections, 5);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

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

TEST(ScoreRowsFaults, NanAnywhere) {
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

TEST(ScoreRowsFaults, ScoresComeBeforeBoxesAndBoxesBeforeAnchors) {
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

TEST(ScoreRowsFaults, InfiniteNumbers) {
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

TEST(ScoreRowsFaults, ASoftmaxNeedsAFiniteGreatestScore) {
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

TEST(ScoreRowsFaults, BadBoxesAreForgivenBeyondMaxCandidates) {
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

TEST(ScoreRowsFaults, BoxesAtAnchorsThatOverflow) {
  const PostprocessParams params = ScoreRowParams(HeadFamily::kSsd, 2);
  ScoreRowHead head = MakeScoreRows(params, 40, 6);
  for (int64_t row = 0; row < 40; ++row) head.Score(row, 1) = 9.0F;
  head.anchors[4 * 20 + 2] = 3e38F;
  head.boxes[4 * 20] = 100.0F;
  EXPECT_EQ(ExpectSameAsCpu(params, {head.Image()}).items[0].status.message,
            "the box of candidate 20 is not finite");
}

TEST(ScoreRowsFaults, RowsThatDifferAreRefusedAtOnce) {
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
      testing::RunOn(testing::kGpu, params, {image});
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), expected);
    }
  }
}

}  // namespace
}  // namespace endcap
