// yolov8_pose's heads by the GPU's kernels: the same rows, and the same errors, as Postprocessor.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "detection_harness.h"

namespace endcap {
namespace {

using testing::ExpectSameAsCpu;
using testing::FloatTensor;
using testing::kGeometry;
using testing::RandomHead;
using testing::Results;
using testing::TestImage;

constexpr int kClasses = 2;
constexpr int64_t kFirstRow = 4 + kClasses;  // of the keypoints

PostprocessParams Params(int keypoints, int values) {
  auto params = testing::Params(HeadFamily::kYolov8Pose, kClasses);
  params.head.num_keypoints = keypoints;
  params.head.keypoint_values = values;
  params.max_detections = 40;
  return params;
}

// [4+C+P*v, A]
std::vector<float> PoseHead(uint32_t seed, const PostprocessParams& params, int64_t anchors) {
  RandomHead random(seed);
  auto head = random.Yolov8(kClasses, static_cast<size_t>(anchors));
  const int rows = params.head.num_keypoints * params.head.keypoint_values;
  for (int64_t i = 0; i < rows * anchors; ++i) head.push_back(random.Uniform(-50.0F, 900.0F));
  return head;
}

TestImage PoseImage(const PostprocessParams& params, const std::vector<float>& head,
                    bool half = false) {
  const int64_t rows = kFirstRow + params.head.num_keypoints * params.head.keypoint_values;
  return {{FloatTensor(head, {rows, static_cast<int64_t>(head.size()) / rows}, half)}, kGeometry};
}

TEST(KeypointsCuda, RowsOfHeadsOfAnyLength) {
  for (const auto& [keypoints, values] : {std::pair{17, 3}, std::pair{5, 2}, std::pair{1, 2}}) {
    const auto params = Params(keypoints, values);
    std::vector<TestImage> images;
    uint32_t seed = 1;
    for (const int64_t anchors : {1, 33, 1100}) {
      for (const bool half : {false, true}) {
        images.push_back(PoseImage(params, PoseHead(seed++, params, anchors), half));
      }
    }
    images.back().geometry.reset();
    const Results results = ExpectSameAsCpu(params, images);
    EXPECT_EQ(results.items.back().num_detections, 40);
  }
}

TEST(KeypointsCuda, ABadOneOfAKeptBoxIsAnError) {
  const auto params = Params(17, 3);
  constexpr int64_t kAnchors = 300;
  const auto head = PoseHead(3, params, kAnchors);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf}) {
    std::vector<TestImage> images = {PoseImage(params, head)};
    for (const int64_t row : {0, 1, 2, 25, 50}) {  // of every box
      auto changed = head;
      std::fill_n(changed.begin() + (kFirstRow + row) * kAnchors, kAnchors, bad);
      images.push_back(PoseImage(params, changed));
    }
    const Results results = ExpectSameAsCpu(params, images);
    EXPECT_TRUE(results.items[0].status.ok());
    for (size_t i = 1; i < images.size(); ++i) {
      EXPECT_EQ(results.items[i].status.code, ErrorCode::kInvalidArgument) << i;
    }
  }
}

TEST(KeypointsCuda, ABadOneOfAnotherBoxIsNot) {
  auto params = Params(3, 2);
  params.max_detections = 1;
  constexpr int64_t kAnchors = 64;
  const auto head = PoseHead(4, params, kAnchors);
  int good = 0;
  for (int64_t anchor = 0; anchor < kAnchors; ++anchor) {
    auto changed = head;
    changed[static_cast<size_t>((kFirstRow + 3) * kAnchors + anchor)] = NAN;
    good += ExpectSameAsCpu(params, {PoseImage(params, changed)}).items[0].status.ok() ? 1 : 0;
  }
  EXPECT_EQ(good, kAnchors - 1);
}

}  // namespace
}  // namespace endcap
