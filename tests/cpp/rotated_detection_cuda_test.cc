// yolov8_obb's heads to output rows by the GPU's kernels: the same as Postprocessor by its scalar
// path, byte for byte.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "detection_harness.h"
#include "endcap/implementation.h"

namespace endcap {
namespace {

using testing::ExpectSameAsCpu;
using testing::FloatTensor;
using testing::kGeometry;
using testing::RandomHead;
using testing::Results;
using testing::TestImage;

constexpr std::array<float, 8> kStretched = {0.4F, 1.3F, -3.0F, 2.0F, 900.0F, 700.0F, 1.0F, 0.0F};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr RotatedNms kMethods[] = {RotatedNms::kPolygon, RotatedNms::kProbiou,
                                   RotatedNms::kProbiouFast};

class RotatedDetectionCuda : public ::testing::TestWithParam<RotatedNms> {
 protected:
  void SetUp() override { ForceImplementation("scalar"); }
  void TearDown() override { ForceImplementation("auto"); }

  static PostprocessParams Params(int classes) {
    PostprocessParams params;
    params.head.family = HeadFamily::kYolov8Obb;
    params.head.num_classes = classes;
    params.max_detections = 100;
    params.iou_threshold = 0.4;
    params.rotated_nms = GetParam();
    return params;
  }
};

INSTANTIATE_TEST_SUITE_P(Methods, RotatedDetectionCuda, ::testing::ValuesIn(kMethods),
                         [](const auto& tested) {
                           return std::string(RotatedNmsNames()[static_cast<size_t>(tested.param)]);
                         });

// [4+C+1, A]
std::vector<float> ObbHead(RandomHead& random, int64_t classes, int64_t anchors) {
  auto head = random.Yolov8(static_cast<size_t>(classes), static_cast<size_t>(anchors));
  for (int64_t a = 0; a < anchors; ++a) head.push_back(random.Uniform(-7.0F, 7.0F));
  return head;
}

TestImage ObbImage(uint32_t seed, int64_t classes, int64_t anchors, bool half = false) {
  RandomHead random(seed);
  return {{FloatTensor(ObbHead(random, classes, anchors), {5 + classes, anchors}, half)},
          seed % 2 == 0 ? kGeometry : kStretched};
}

TEST_P(RotatedDetectionCuda, HeadsOfAnyLength) {
  auto params = Params(3);
  std::vector<TestImage> images;
  uint32_t seed = 1;
  for (const int64_t anchors : {1, 2, 31, 33, 257, 1001}) {
    for (const bool half : {false, true}) images.push_back(ObbImage(seed++, 3, anchors, half));
  }
  images.back().geometry.reset();
  const Results results = ExpectSameAsCpu(params, images);
  EXPECT_GT(results.items.back().num_detections, 20);
  EXPECT_GT(results.items.back().num_detections, results.items[6].num_detections);
  params.class_agnostic = true;
  ExpectSameAsCpu(params, images);
}

TEST_P(RotatedDetectionCuda, AnglesOfLessThanAQuarterTurn) {
  auto params = Params(3);
  params.angle_range = AngleRange::kLe90;
  const Results results = ExpectSameAsCpu(params, {ObbImage(80, 3, 500), ObbImage(81, 3, 500)});
  EXPECT_GT(results.items[0].num_detections, 20);
}

TEST_P(RotatedDetectionCuda, BoxesWithoutAreaAreDropped) {
  RandomHead random(90);
  auto head = ObbHead(random, 3, 2000);
  for (size_t a = 0; a < 2000; a += 2)
    head[(a % 4 < 2 ? 2 : 3) * 2000 + a] = a % 3 == 0 ? 0 : -9.0F;
  TestImage image = {{FloatTensor(head, {8, 2000})}, kGeometry};
  auto params = Params(3);
  params.head.score_threshold = 0.05;
  const Results results = ExpectSameAsCpu(params, {image});
  EXPECT_GT(results.items[0].num_detections, 30);
  std::vector<int32_t> indices(static_cast<size_t>(results.items[0].num_detections));
  std::memcpy(indices.data(), results.tensors[0][4].data(), sizeof(int32_t) * indices.size());
  EXPECT_TRUE(std::ranges::all_of(indices, [](int32_t index) { return index % 2 == 1; }));
}

TEST_P(RotatedDetectionCuda, EveryClassOverTheThreshold) {
  auto params = Params(7);
  params.head.multi_label = true;
  params.head.score_threshold = 0.05;
  const std::vector<TestImage> images = {ObbImage(20, 7, 1), ObbImage(21, 7, 400),
                                         ObbImage(22, 7, 300, true)};
  ExpectSameAsCpu(params, images);
  params.class_agnostic = true;
  ExpectSameAsCpu(params, images);
}

TEST_P(RotatedDetectionCuda, ManyMoreCandidatesThanAChunk) {
  auto params = Params(2);
  params.head.score_threshold = 0.0;
  params.max_detections = 3000;
  params.iou_threshold = 0.95;  // few are suppressed
  std::vector<TestImage> images = {ObbImage(40, 2, 3000)};
  RandomHead random(41);
  auto head = ObbHead(random, 1, 2500);
  std::fill(head.begin() + 4 * 2500, head.begin() + 5 * 2500, 0.5F);  // all scores are equal
  images.push_back({{FloatTensor(head, {6, 2500})}, std::nullopt});
  const Results results = ExpectSameAsCpu(params, {images[0]});
  EXPECT_GT(results.items[0].num_detections, 1100);
  params.head.num_classes = 1;
  const Results ties = ExpectSameAsCpu(params, {images[1]});
  EXPECT_GT(ties.items[0].num_detections, 1100);
}

// Around two hundred objects, so that all of them are looked at.
TEST_P(RotatedDetectionCuda, ThirtyThousandCandidates) {
  constexpr size_t kAnchors = 30000;
  auto params = Params(1);
  params.head.score_threshold = 0.0;
  params.max_detections = 300;
  RandomHead random(42);
  std::vector<float> head(6 * kAnchors);
  for (size_t a = 0; a < kAnchors; ++a) {
    const auto object = static_cast<float>(a % 200);
    head[a] = std::fmod(object, 20.0F) * 60.0F + random.Uniform(-2.0F, 2.0F);
    head[kAnchors + a] = std::floor(object / 20.0F) * 60.0F + random.Uniform(-2.0F, 2.0F);
    head[2 * kAnchors + a] = random.Uniform(45.0F, 55.0F);
    head[3 * kAnchors + a] = random.Uniform(20.0F, 24.0F);
    head[4 * kAnchors + a] = random.Uniform(0.01F, 0.99F);
    head[5 * kAnchors + a] = object + random.Uniform(-0.1F, 0.1F);
  }
  const Results results =
      ExpectSameAsCpu(params, {{{FloatTensor(head, {6, kAnchors})}, kGeometry}});
  EXPECT_GE(results.items[0].num_detections, 200);
  EXPECT_LT(results.items[0].num_detections, 300);
}

TEST_P(RotatedDetectionCuda, ThresholdsAtTheEnds) {
  auto params = Params(2);
  params.head.score_threshold = 0.1;
  for (const double threshold : {0.0, 1e-9, 0.3, 1.0}) {
    params.iou_threshold = threshold;
    ExpectSameAsCpu(params, {ObbImage(70, 2, 300), ObbImage(71, 2, 300)});
  }
}

TEST_P(RotatedDetectionCuda, TruncatesAsTheCpu) {
  auto params = Params(2);
  params.head.score_threshold = 0.01;
  params.max_detections = 2000;
  for (const int most : {1, 10, 512, 1024, 1100}) {
    params.head.max_candidates = most;
    const Results results = ExpectSameAsCpu(params, {ObbImage(50, 2, 1500)});
    EXPECT_TRUE(results.items[0].truncated);
  }
}

TEST_P(RotatedDetectionCuda, FewRowsAndNone) {
  auto params = Params(2);
  params.iou_threshold = 0.8;
  for (const int rows : {1, 2, 31, 33}) {
    params.max_detections = rows;
    const Results results = ExpectSameAsCpu(params, {ObbImage(60, 2, 1200)});
    EXPECT_EQ(results.items[0].num_detections, rows);
  }
  params.head.score_threshold = 1.0;
  const Results results =
      ExpectSameAsCpu(params, {ObbImage(61, 2, 300), {{FloatTensor({}, {7, 0})}, kGeometry}});
  EXPECT_EQ(results.items[0].num_detections, 0);
}

// Sides without an area, sides that the bounds do not know, the same box many times, any turn.
TEST_P(RotatedDetectionCuda, OddBoxes) {
  auto params = Params(1);
  constexpr float kSides[] = {-20.0F, 0.0F, 1e-13F, 0.3F, 20.0F, 20.0F, 900.0F, 1e14F};
  constexpr float kAngles[] = {0.0F, 0.0F, 1.5707964F, 3e38F, -1e20F};
  RandomHead random(80);
  auto head = ObbHead(random, 1, 400);
  for (size_t a = 0; a < 400; ++a) {
    head[a] = static_cast<float>(a % 11);
    head[400 + a] = static_cast<float>(a % 2);
    head[2 * 400 + a] = kSides[a % 8];
    head[3 * 400 + a] = kSides[a * 7 / 8 % 8];
    head[4 * 400 + a] = 0.9F;
    head[5 * 400 + a] = kAngles[a % 5];
  }
  for (const double threshold : {0.0, 0.4, 1.0}) {
    params.iou_threshold = threshold;
    ExpectSameAsCpu(params, {{{FloatTensor(head, {6, 400})}, kStretched},
                             {{FloatTensor(head, {6, 400})}, std::nullopt}});
  }
}

TEST_P(RotatedDetectionCuda, FractionsOfTheInput) {
  auto params = Params(2);
  params.head.box_unit = BoxUnit::kNormalized;
  params.head.input_width = 511;
  ExpectSameAsCpu(params, {ObbImage(72, 2, 300)});
}

TEST_P(RotatedDetectionCuda, ABatchOfAllSorts) {
  const auto params = Params(3);
  std::vector<TestImage> images;
  for (uint32_t i = 0; i < 70; ++i) images.push_back(ObbImage(100 + i, 3, 40 + i, i % 3 == 0));
  images[3].status = 1;
  images[3].head.clear();
  images[4].geometry_on_device = true;
  images[5].staged = true;
  images[6].staged = true;
  images[6].status = 2;
  images[7].misaligned_by = 4;
  images[8].skipped = {0, 1, 2, 3, 4, 5};
  images[9].skipped = {6};
  images[10].skipped = {1};
  images[11].skipped = {5};
  images[66].status = 7;
  ExpectSameAsCpu(params, images);
}

TEST_P(RotatedDetectionCuda, AnglesOfCandidatesMustBeNumbers) {
  auto params = Params(2);
  params.max_detections = 5;  // worse candidates' angles count as well
  RandomHead random(90);
  auto head = ObbHead(random, 2, 300);
  for (size_t a = 0; a < 300; ++a) {
    head[4 * 300 + a] = 0.9F - 0.002F * static_cast<float>(a);
    head[5 * 300 + a] = 0.0F;
  }
  const auto with = [&](const std::vector<size_t>& anchors, float value) {
    auto bad = head;
    for (const size_t a : anchors) bad[6 * 300 + a] = value;
    return TestImage{{FloatTensor(bad, {7, 300})}, kGeometry};
  };
  const std::string message = "in row 6 of anchor 200";
  for (const bool multi_label : {false, true}) {
    params.head.multi_label = multi_label;
    for (const float value : {kNan, kInf, -kInf}) {
      const Results results =
          ExpectSameAsCpu(params, {with({}, value), with({290, 250, 200}, value)});
      EXPECT_TRUE(results.items[0].status.ok());
      EXPECT_NE(results.items[1].status.message.find(message), std::string::npos)
          << results.items[1].status.message;
    }
  }
  params.head.max_candidates = 200;  // one too few for the first bad one
  EXPECT_TRUE(ExpectSameAsCpu(params, {with({200}, kNan)}).items[0].status.ok());
  params.head.max_candidates = 201;
  EXPECT_FALSE(ExpectSameAsCpu(params, {with({200}, kNan)}).items[0].status.ok());
  params.head.score_threshold = 0.55;  // no candidate
  EXPECT_TRUE(ExpectSameAsCpu(params, {with({200}, kNan)}).items[0].status.ok());
}

TEST_P(RotatedDetectionCuda, OtherFaultsComeFirst) {
  const auto params = Params(2);
  RandomHead random(91);
  auto head = ObbHead(random, 2, 100);
  for (size_t a = 0; a < 100; ++a) head[4 * 100 + a] = 0.9F;
  head[6 * 100 + 10] = kNan;
  auto box = head;
  box[20] = kInf;
  auto score = head;
  score[5 * 100 + 30] = kNan;
  auto geometry = kGeometry;
  geometry[0] = 0.0F;
  const Results results = ExpectSameAsCpu(params, {{{FloatTensor(head, {7, 100})}, kGeometry},
                                                   {{FloatTensor(box, {7, 100})}, kGeometry},
                                                   {{FloatTensor(score, {7, 100})}, kGeometry},
                                                   {{FloatTensor(head, {7, 100})}, geometry}});
  for (const PostprocessItem& item : results.items) {
    EXPECT_EQ(item.status.code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace endcap
