// NMS of rotated boxes by the GPU's kernels: the same boxes, in the same order, as NmsRotated.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "endcap/implementation.h"
#include "endcap/nms.h"
#include "nms/cuda/launch.h"
#include "on_device.h"

namespace endcap {
namespace {

using testing::OnDevice;

struct Boxes {
  std::vector<float> xywhr, scores;
  std::vector<int32_t> class_ids;  // empty: one class
};

// Boxes that crowd around `crowds` places at few angles, with scores on a grid.
Boxes RandomBoxes(uint32_t seed, size_t count, int crowds, bool with_classes = false) {
  std::mt19937 random(seed);
  const auto uniform = [&](float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random);
  };
  Boxes boxes;
  for (size_t i = 0; i < count; ++i) {
    const float place = std::floor(uniform(0.0F, static_cast<float>(crowds))) * 40.0F;
    boxes.xywhr.insert(
        boxes.xywhr.end(),
        {place + uniform(-8.0F, 8.0F), std::fmod(place * 7.0F, 1000.0F) + uniform(-8.0F, 8.0F),
         uniform(0.0F, 60.0F), uniform(0.0F, 20.0F), std::floor(uniform(-9.0F, 9.0F)) * 0.4F});
    boxes.scores.push_back(std::floor(uniform(-50.0F, 500.0F)) / 500.0F);
    if (with_classes) boxes.class_ids.push_back(static_cast<int32_t>(random() % 5) * 1000 - 2000);
  }
  return boxes;
}

struct Kept {
  int64_t count;
  std::vector<int64_t> indices;
};

Kept RunKernels(const Boxes& boxes, const RotatedNmsOptions& options) {
  const OnDevice xywhr(boxes.xywhr);
  const OnDevice scores(boxes.scores);
  const OnDevice classes(boxes.class_ids);
  const OnDevice kept(std::vector<int64_t>(boxes.scores.size(), -7));
  const OnDevice kept_count(std::vector<int64_t>{-7});
  const auto count = static_cast<int64_t>(boxes.scores.size());
  const int64_t most = options.max_detections < 0 ? count : options.max_detections;
  const RotatedScratchSize scratch = SizeRotatedScratch(
      options.method, static_cast<uint32_t>(count), static_cast<uint32_t>(std::min(most, count)));
  LaunchRotatedNms({xywhr.get(), scores.get(), boxes.class_ids.empty() ? nullptr : classes.get(),
                    count, MakeRotatedRule(options.method, options.iou_threshold), scratch,
                    RotatedScratchBytes(options.method, scratch), kept.get(), kept_count.get()},
                   nullptr);
  Kept result = {kept_count.Read(1)[0], {}};
  if (result.count > 0) result.indices = kept.Read(static_cast<size_t>(result.count));
  return result;
}

class RotatedNmsCuda : public ::testing::TestWithParam<RotatedNms> {
 protected:
  void SetUp() override { ForceImplementation("scalar"); }
  void TearDown() override { ForceImplementation("auto"); }

  static std::vector<int64_t> ExpectSameAsCpu(const Boxes& boxes, double iou_threshold,
                                              int64_t max_detections = -1) {
    const RotatedNmsOptions options = {iou_threshold, max_detections, GetParam()};
    const auto expected = NmsRotated(boxes.xywhr, boxes.scores, boxes.class_ids, options);
    const Kept actual = RunKernels(boxes, options);
    EXPECT_EQ(actual.count, std::ssize(expected));
    EXPECT_EQ(actual.indices, expected);
    return expected;
  }
};

INSTANTIATE_TEST_SUITE_P(Methods, RotatedNmsCuda,
                         ::testing::Values(RotatedNms::kPolygon, RotatedNms::kProbiou,
                                           RotatedNms::kProbiouFast),
                         [](const auto& tested) {
                           return std::string(RotatedNmsNames()[static_cast<size_t>(tested.param)]);
                         });

TEST_P(RotatedNmsCuda, AnyNumberOfBoxes) {
  for (const size_t count : {0, 1, 2, 31, 33, 511, 512, 513, 1100}) {
    for (const bool with_classes : {false, true}) {
      ExpectSameAsCpu(RandomBoxes(static_cast<uint32_t>(count), count, 20, with_classes), 0.4);
    }
  }
}

TEST_P(RotatedNmsCuda, ManyKeptBoxes) {
  EXPECT_GT(ExpectSameAsCpu(RandomBoxes(1, 2500, 2000), 0.6).size(), 1300U);
}

TEST_P(RotatedNmsCuda, EveryThreshold) {
  const Boxes boxes = RandomBoxes(2, 600, 30, true);
  for (const double threshold : {0.0, 0.1, 0.3, 0.7, 0.99, 1.0}) ExpectSameAsCpu(boxes, threshold);
}

TEST_P(RotatedNmsCuda, StopsAtMaxDetections) {
  const Boxes boxes = RandomBoxes(3, 1500, 1000);
  for (const int64_t most : {0, 1, 31, 33, 512, 700, 9999}) ExpectSameAsCpu(boxes, 0.5, most);
}

TEST_P(RotatedNmsCuda, NumbersThatAreNotFinite) {
  Boxes boxes = RandomBoxes(4, 700, 10);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float odd[] = {kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 1e38F};
  for (size_t i = 0; i < boxes.xywhr.size(); i += 37) boxes.xywhr[i] = odd[i % 4];
  boxes.scores[5] = kInf;
  boxes.scores[6] = 0.0F;
  boxes.scores[7] = -0.0F;  // equal
  boxes.scores[600] = -kInf;
  ExpectSameAsCpu(boxes, 0.4);
}

TEST_P(RotatedNmsCuda, ANanScoreIsToldByTheCount) {
  for (const size_t place : {0, 513, 899}) {
    Boxes boxes = RandomBoxes(5, 900, 20);
    boxes.scores[place] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(RunKernels(boxes, {0.5, -1, GetParam()}).count, -1);
  }
}

}  // namespace
}  // namespace endcap
