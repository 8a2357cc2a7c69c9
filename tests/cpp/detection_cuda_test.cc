// Raw heads to output rows by the GPU's kernels: the same as the CPU's scalar implementation, byte
// for byte. Heads of a tensor of boxes and a tensor of scores are in score_rows_cuda_test.cc, masks
// in mask_cuda_test.cc, and more of what can be wrong with a head in detection_faults_test.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

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

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::array<float, 8> kStretched = {0.4F, 1.3F, -3.0F, 2.0F, 900.0F, 700.0F, 1.0F, 0.0F};
constexpr int64_t kCoefficients = 5;

// A family whose head has, for each box, four numbers, some scores and some of its own.
struct Kind {
  std::string name;
  HeadFamily family;
  int classes;
  int64_t scores;  // a score for each class, and yolov5's objectness
  int64_t extra;   // keypoints, coefficients of a mask, an angle
  RotatedNms method = RotatedNms::kPolygon;

  bool ranked() const { return name.starts_with("end2end"); }  // a score and its class
  bool rotated() const { return name.find("obb") != std::string::npos; }
  int64_t width() const { return 4 + scores + (ranked() ? 1 : 0) + extra; }
};

const Kind kKinds[] = {
    {"yolov8", HeadFamily::kYolov8, 5, 5, 0},
    {"yolov5", HeadFamily::kYolov5, 3, 4, 0},
    {"yolov5_many", HeadFamily::kYolov5, 150, 151, 0},  // more than a warp reads at once
    {"yolov8_pose", HeadFamily::kYolov8Pose, 2, 2, 8},
    {"yolov8_obb_polygon", HeadFamily::kYolov8Obb, 3, 3, 1},
    {"yolov8_obb_probiou", HeadFamily::kYolov8Obb, 3, 3, 1, RotatedNms::kProbiou},
    {"yolov8_obb_fast", HeadFamily::kYolov8Obb, 3, 3, 1, RotatedNms::kProbiouFast},
    {"end2end", HeadFamily::kEnd2End, 6, 1, 0},
    {"end2end_pose", HeadFamily::kEnd2EndPose, 6, 1, 8},
    {"end2end_seg", HeadFamily::kEnd2EndSeg, 6, 1, kCoefficients},
    {"end2end_obb", HeadFamily::kEnd2EndObb, 6, 1, 1},
};

class DetectionCuda : public ::testing::TestWithParam<Kind> {
 protected:
  const Kind& kind_ = GetParam();
  const int64_t width_ = kind_.width();

  PostprocessParams Params() const {
    auto params = testing::Params(kind_.family, kind_.classes);
    params.rotated_nms = kind_.method;
    params.iou_threshold = 0.4;
    params.head.num_keypoints = 4;
    params.head.keypoint_values = 2;
    params.head.mask_coefficients = kCoefficients;
    params.head.prototype_height = 40;
    params.head.prototype_width = 48;
    params.mask_resolution = MaskResolution::kPrototype;
    if (GivesRle(params)) params.max_detections = 20;  // masks take long
    return params;
  }

  template <typename Floats>
  auto& At(Floats& rows, int64_t row, int64_t column) const {
    return rows[static_cast<size_t>(row * width_ + column)];
  }

  // [count][width]
  std::vector<float> Rows(uint32_t seed, int64_t count) const {
    RandomHead random(seed);
    std::vector<float> rows;
    for (int64_t row = 0; row < count; ++row) {
      auto box = random.Box();
      if (kind_.ranked() && !kind_.rotated()) {
        box[2] += box[0];
        box[3] += box[1];
      }
      rows.insert(rows.end(), box.begin(), box.end());
      for (int64_t i = 0; i < kind_.scores; ++i) rows.push_back(random.Score());
      const auto classes = static_cast<float>(kind_.classes);
      if (kind_.ranked()) rows.push_back(std::floor(random.Uniform(0.0F, classes)));
      for (int64_t i = 0; i < kind_.extra; ++i) rows.push_back(random.Uniform(-7.0F, 7.0F));
    }
    return rows;
  }

  TestImage Image(const std::vector<float>& rows, bool half = false) const {
    const int64_t count = static_cast<int64_t>(rows.size()) / width_;
    TestImage image;
    if (kind_.name.starts_with("yolov8")) {
      std::vector<float> columns;
      for (int64_t column = 0; column < width_; ++column) {
        for (int64_t row = 0; row < count; ++row) columns.push_back(At(rows, row, column));
      }
      image.head = {FloatTensor(columns, {width_, count}, half)};
    } else {
      image.head = {FloatTensor(rows, {count, width_}, half)};
    }
    if (kind_.family == HeadFamily::kEnd2EndSeg) {
      RandomHead random(5);
      std::vector<float> prototypes(kCoefficients * 40 * 48);
      for (float& value : prototypes) value = random.Uniform(-1.0F, 1.0F);
      image.head.push_back(FloatTensor(prototypes, {kCoefficients, 40, 48}));
    }
    image.geometry = kGeometry;
    return image;
  }
  TestImage Image(uint32_t seed, int64_t count, bool half = false) const {
    TestImage image = Image(Rows(seed, count), half);
    if (seed % 2 != 0) image.geometry = kStretched;
    return image;
  }

  int64_t FirstExtra() const { return width_ - kind_.extra; }
  template <typename Function>
  void SetScores(std::vector<float>& rows, Function score) const {
    for (int64_t row = 0; row < static_cast<int64_t>(rows.size()) / width_; ++row) {
      for (int64_t i = 4; i < 4 + kind_.scores; ++i) At(rows, row, i) = score(row);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, DetectionCuda, ::testing::ValuesIn(kKinds),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(DetectionCuda, HeadsOfAnyLength) {
  auto params = Params();
  std::vector<TestImage> images;
  uint32_t seed = 1;
  for (const int64_t count : {0, 1, 3, 4, 31, 33, 128, 129, 257, 1001}) {
    for (const bool half : {false, true}) images.push_back(Image(seed++, count, half));
  }
  images.back().geometry.reset();
  const Results results = ExpectSameAsCpu(params, images);
  EXPECT_GE(results.items.back().num_detections, 20);
  params.class_agnostic = true;
  params.angle_range = AngleRange::kLe90;
  ExpectSameAsCpu(params, images);
}

TEST_P(DetectionCuda, EveryClassOverTheThreshold) {
  auto params = Params();
  if (kind_.ranked()) return;  // there is one
  params.head.multi_label = true;
  params.head.score_threshold = 0.05;
  const std::vector<TestImage> images = {Image(20, 1), Image(21, 400), Image(22, 700, true)};
  ExpectSameAsCpu(params, images);
  params.class_agnostic = true;
  ExpectSameAsCpu(params, images);
}

TEST_P(DetectionCuda, SigmoidOfLogits) {
  for (const bool multi_label : {false, true}) {
    auto params = Params();
    params.head.activation = Activation::kSigmoid;
    if (!kind_.ranked()) params.head.multi_label = multi_label;
    RandomHead random(30);
    auto rows = Rows(31, 400);
    SetScores(rows, [&](int64_t) { return random.Uniform(-8.0F, 6.0F); });
    for (const double threshold : {0.0, 0.25, 0.9}) {
      params.head.score_threshold = threshold;
      EXPECT_GT(ExpectSameAsCpu(params, {Image(rows)}).items[0].num_detections, 5);
    }
  }
}

TEST_P(DetectionCuda, ManyMoreCandidatesThanAChunk) {
  if (GivesRle(Params())) return;
  auto params = Params();
  params.head.score_threshold = 0.0;
  params.max_detections = 2500;
  params.iou_threshold = 0.95;  // few are suppressed
  auto rows = Rows(40, 2500);
  std::vector<TestImage> images = {Image(rows)};
  SetScores(rows, [](int64_t) { return 0.5F; });
  images.push_back(Image(rows));
  SetScores(rows, [](int64_t row) {
    return 0.5F + static_cast<float>(row * 7919 % 2500) * 0x1p-24F;  // close to each other
  });
  images.push_back(Image(rows));
  const Results results = ExpectSameAsCpu(params, images);
  for (const PostprocessItem& item : results.items) EXPECT_GT(item.num_detections, 1100);
}

TEST_P(DetectionCuda, TruncatesAsTheCpu) {
  if (GivesRle(Params())) return;
  auto params = Params();
  params.head.score_threshold = 0.01;
  params.max_detections = 2000;
  params.iou_threshold = 0.95;
  for (const int most : {1, 10, 512, 1024, 1300}) {
    params.head.max_candidates = most;
    EXPECT_TRUE(ExpectSameAsCpu(params, {Image(50, 2500)}).items[0].truncated);
  }
}

TEST_P(DetectionCuda, FewRowsAndNone) {
  auto params = Params();
  params.iou_threshold = 0.9;
  for (const int rows : {1, 2, 31, 33}) {
    params.max_detections = rows;
    EXPECT_EQ(ExpectSameAsCpu(params, {Image(60, 600)}).items[0].num_detections, rows);
  }
  params.head.score_threshold = 1.0;
  EXPECT_EQ(ExpectSameAsCpu(params, {Image(61, 300)}).items[0].num_detections, 0);
}

TEST_P(DetectionCuda, ThresholdsAtTheEndsAndBoxesInFractions) {
  auto params = Params();
  params.head.input_width = 511;
  for (const BoxUnit unit : {BoxUnit::kPixel, BoxUnit::kNormalized}) {
    params.head.box_unit = unit;
    for (const double threshold : {0.0, 1e-9, 0.3, 1.0}) {
      params.iou_threshold = threshold;
      ExpectSameAsCpu(params, {Image(70, 300), Image(71, 300)});
    }
  }
  if (kind_.rotated()) return;
  for (const BoxFormat format : {BoxFormat::kXyxy, BoxFormat::kCxcywh}) {
    params.head.box_format = format;
    ExpectSameAsCpu(params, {Image(72, 300)});
  }
}

TEST_P(DetectionCuda, BoxesWithoutAreaAreDropped) {
  if (GivesRle(Params())) return;
  auto rows = Rows(9, 2000);
  const bool corners = kind_.ranked() && !kind_.rotated();
  for (int64_t row = 0; row < 2000; row += 2) {
    const int64_t axis = row % 4 / 2;
    At(rows, row, 2 + axis) = (corners ? At(rows, row, axis) : 0.0F) - (row % 3 == 0 ? 0.0F : 9.0F);
  }
  std::vector<TestImage> images = {Image(rows), Image(rows)};
  images[1].geometry = {1.0F, 0.5F, 200.0F, 300.0F, 120.0F, 200.0F, 1.0F, 0.0F};
  auto params = Params();
  params.head.score_threshold = 0.01;
  for (const int most : {30, 2100}) {
    params.max_detections = most;
    const Results results = ExpectSameAsCpu(params, images);
    for (size_t i = 0; i < images.size(); ++i) {
      EXPECT_GT(results.items[i].num_detections, 5);
      std::vector<int32_t> indices(static_cast<size_t>(results.items[i].num_detections));
      std::memcpy(indices.data(), results.tensors[i][4].data(), sizeof(int32_t) * indices.size());
      EXPECT_TRUE(std::ranges::all_of(indices, [](int32_t index) { return index % 2 == 1; }));
    }
  }
}

// Sides without an area, areas that overflow, sides that the bounds of rotated boxes do not know,
// the same box many times, any turn.
TEST_P(DetectionCuda, OddBoxes) {
  const float largest = kind_.rotated() ? 1e14F : 1e19F;
  const float sides[] = {-20.0F, 0.0F, 1e-13F, 0.3F, 20.0F, 20.0F, 900.0F, largest};
  constexpr float kAngles[] = {0.0F, 0.0F, 1.5707964F, 3e38F, -1e20F};
  auto rows = Rows(80, 400);
  SetScores(rows, [](int64_t) { return 0.9F; });
  for (int64_t row = 0; row < 400; ++row) {
    At(rows, row, 0) = static_cast<float>(row % 11);
    At(rows, row, 1) = static_cast<float>(row % 2);
    At(rows, row, 2) = sides[row % 8];
    At(rows, row, 3) = sides[row * 7 / 8 % 8];
    if (kind_.rotated()) At(rows, row, FirstExtra()) = kAngles[row % 5];
  }
  std::vector<TestImage> images = {Image(rows), Image(rows), Image(rows)};
  images[1].geometry = kStretched;
  images[2].geometry.reset();
  auto params = Params();
  for (const double threshold : {0.0, 0.4, 1.0}) {
    params.iou_threshold = threshold;
    ExpectSameAsCpu(params, images);
  }
}

TEST_P(DetectionCuda, ABatchOfAllSorts) {
  std::vector<TestImage> images;
  for (uint32_t i = 0; i < 70; ++i) images.push_back(Image(100 + i, 40 + i, i % 3 == 0));
  images[3].status = 1;
  images[3].head.clear();
  images[4].geometry_on_device = true;
  images[5].staged = true;
  images[6].staged = true;
  images[6].status = 2;
  images[8].skipped = {0, 1, 2, 3, 4, 5};
  for (size_t i = 9; i < 15; ++i) images[i].skipped = {i - 9};
  for (size_t i = 20; i < 28; ++i) {
    const bool halves = i % 3 == 0 && images[i].head.size() == 1;  // the prototypes are floats
    images[i].misaligned_by = (halves ? 2 : 4) * (i % 4);
  }
  images[66].status = 7;
  ExpectSameAsCpu(Params(), images);
}

TEST_P(DetectionCuda, NumbersThatAreNotFinite) {
  auto params = Params();
  auto rows = Rows(90, 60);
  SetScores(rows, [](int64_t row) { return 0.9F - 0.01F * static_cast<float>(row); });
  std::vector<TestImage> images;
  for (const int64_t row : {7, 59}) {
    for (const int64_t column :
         {int64_t{0}, int64_t{3}, int64_t{4}, FirstExtra() - 1, width_ - 1}) {
      for (const float value : {kNan, kInf, -kInf}) {
        auto changed = rows;
        At(changed, row, column) = value;
        images.push_back(Image(changed, row == 7));
        if (kind_.extra == 0) continue;
        At(changed, 3, width_ - 1) = kNan;  // other faults come first
        images.push_back(Image(changed));
      }
    }
  }
  images.push_back(Image(rows));
  for (const int most : {60, 1}) {  // numbers of boxes that are left out matter or do not
    params.max_detections = most;
    const Results results = ExpectSameAsCpu(params, images);
    const auto failed = std::ranges::count_if(
        results.items, [](const PostprocessItem& item) { return !item.status.ok(); });
    EXPECT_GT(failed, 8);
    EXPECT_TRUE(results.items.back().status.ok());
  }
}

TEST(RotatedDetectionCuda, AnglesOfCandidatesMustBeNumbers) {
  auto params = testing::Params(HeadFamily::kYolov8Obb, 2);
  params.max_detections = 5;  // worse candidates' angles count as well
  RandomHead random(90);
  auto head = random.Yolov8(2, 300);
  for (size_t a = 0; a < 300; ++a) {
    head[4 * 300 + a] = 0.9F - 0.002F * static_cast<float>(a);
    head[5 * 300 + a] = 0.0F;
    head.push_back(random.Uniform(-7.0F, 7.0F));
  }
  for (const size_t a : {290, 250, 200}) head[6 * 300 + a] = kNan;
  const TestImage image{{FloatTensor(head, {7, 300})}, kGeometry};
  for (const bool multi_label : {false, true}) {
    params.head.multi_label = multi_label;
    EXPECT_NE(ExpectSameAsCpu(params, {image}).items[0].status.message.find("of anchor 200"),
              std::string::npos);
  }
  params.head.max_candidates = 200;  // one too few for the first bad one
  EXPECT_TRUE(ExpectSameAsCpu(params, {image}).items[0].status.ok());
  params.head.max_candidates = 201;
  EXPECT_FALSE(ExpectSameAsCpu(params, {image}).items[0].status.ok());
  params.head.score_threshold = 0.55;  // no candidate
  EXPECT_TRUE(ExpectSameAsCpu(params, {image}).items[0].status.ok());
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
