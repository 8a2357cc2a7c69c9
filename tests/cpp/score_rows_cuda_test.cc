// rtdetr and ssd by the GPU's kernels: the same as the scalar implementation, byte for byte.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <tuple>

#include "detection_harness.h"
#include "endcap/implementation.h"
#include "score_row_images.h"

namespace endcap {
namespace {

using testing::ExpectSameAsCpu;
using testing::kGeometry;
using testing::MakeScoreRows;
using testing::Results;
using testing::ScoreRowHead;
using testing::ScoreRowParams;
using testing::TestImage;

class ForcedScalar {
 public:
  ForcedScalar() { ForceImplementation("scalar"); }
  ~ForcedScalar() { ForceImplementation("auto"); }
};

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

 private:
  ForcedScalar scalar_;
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
  const auto bytes = testing::RunOnCpu(params, {image}).tensors[0][kScoresOutput];
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

TEST(ScoreRowsCudaSizes, OfTheUsualModels) {
  const ForcedScalar scalar;
  for (const auto& [family, rows, classes] :
       std::vector<std::tuple<HeadFamily, int64_t, int>>{{HeadFamily::kRtdetr, 300, 80},
                                                         {HeadFamily::kSsd, 8732, 20},
                                                         {HeadFamily::kSsd, 1917, 90}}) {
    PostprocessParams params = ScoreRowParams(family, classes);
    params.max_detections = 300;
    params.head.score_threshold = 0.05;
    const Results results =
        ExpectSameAsCpu(params, {MakeScoreRows(params, rows, 30).Image(),
                                 MakeScoreRows(params, rows, 31).Image(/*half=*/true)});
    EXPECT_GT(results.items[0].num_detections, 100);
  }
}

TEST(ScoreRowsCudaSizes, ManyMoreCandidatesThanAChunk) {
  const ForcedScalar scalar;
  PostprocessParams params = ScoreRowParams(HeadFamily::kRtdetr, 12);
  params.head.score_threshold = 0.0;
  params.head.max_candidates = 3000;
  params.max_detections = 3500;
  const Results results = ExpectSameAsCpu(params, {MakeScoreRows(params, 700, 32).Image()});
  EXPECT_EQ(results.items[0].num_detections, 3000);
  EXPECT_TRUE(results.items[0].truncated);
}

TEST(SsdCuda, EverySourceOfAnchorsFormatAndUnit) {
  const ForcedScalar scalar;
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
  const ForcedScalar scalar;
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
  const ForcedScalar scalar;
  const PostprocessParams params = ScoreRowParams(HeadFamily::kSsd, 3);
  ScoreRowHead head = MakeScoreRows(params, 60, 43);
  for (size_t i = 0; i < head.boxes.size(); i += 3) head.boxes[i] *= 1000.0F;
  EXPECT_GT(ExpectSameAsCpu(params, {head.Image()}).items[0].num_detections, 5);
}

TEST(ScoreRowsBatch, OfAllSorts) {
  const ForcedScalar scalar;
  for (const HeadFamily family : {HeadFamily::kRtdetr, HeadFamily::kSsd}) {
    const PostprocessParams params = ScoreRowParams(family, 3);
    std::vector<TestImage> images;
    for (uint32_t i = 0; i < 70; ++i) {
      images.push_back(MakeScoreRows(params, 20 + i, 100 + i).Image(i % 3 == 0));
      images.back().misaligned_by = i % 2 == 0 ? 4 : 0;
    }
    images[3].status = 1;
    images[3].head.clear();
    images[4].geometry = kGeometry;
    images[4].geometry_on_device = true;
    images[5].staged = true;
    images[6].staged = true;
    images[6].status = 2;
    images[7].staged = true;
    images[8].skipped = {0, 1, 2, 3, 4};
    ExpectSameAsCpu(params, images);
  }
}

}  // namespace
}  // namespace endcap
