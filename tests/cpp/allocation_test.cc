// What calls ask of the heap once there was one of that size: Postprocessor::Run the vector that it
// returns, the others nothing. This program counts every operator new.

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "allocation_counter.h"
#include "endcap/implementation.h"
#include "endcap/masks.h"
#include "endcap/nms.h"
#include "endcap/postprocess.h"
#include "head_tensors.h"

namespace endcap {
namespace {

using testing::allocations;
using testing::ToHalves;
using testing::View;

// Allocations of the third call with the same inputs.
int SteadyAllocations(const PostprocessParams& params, const std::vector<ConstTensorView>& head) {
  Postprocessor postprocessor(params, 1);
  std::vector<std::vector<float>> memory;
  PostprocessOutput output;
  for (const TensorSpec& spec : postprocessor.outputs()) {
    TensorView view;
    view.dtype = spec.dtype;
    view.shape = spec.shape;
    view.rank = spec.rank;
    view.data = memory.emplace_back(static_cast<size_t>(view.size())).data();
    output.tensors.push_back(view);
  }
  const std::vector<PostprocessInput> inputs(2, {head, nullptr, 0});
  const std::vector<PostprocessOutput> outputs(2, output);
  int before = 0;
  for (int call = 0; call < 3; ++call) {
    before = allocations.load();
    const auto items = postprocessor.Run(inputs, outputs);
    EXPECT_TRUE(items.at(0).status.ok()) << items[0].status.message;
  }
  return allocations.load() - before;
}

std::vector<float> RandomHead(int64_t size) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> score(0.0F, 0.5F);
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = score(random);
  return values;
}

class Allocation : public ::testing::Test {
 protected:
  void SetUp() override {
    if (SimdTargets().empty()) GTEST_SKIP() << "the scalar implementations may allocate";
  }
  PostprocessParams params_;
};

TEST_F(Allocation, CountsAtAll) {
  const int before = allocations.load();
  const std::vector<int> memory(100);
  EXPECT_EQ(allocations.load() - before, 1);
}

TEST_F(Allocation, OfYolov8IsTheResultOnly) {
  const std::vector<float> values = RandomHead(int64_t{84} * 1000);
  const std::vector<uint16_t> halves = ToHalves(values);
  for (const bool multi_label : {false, true}) {
    params_.head.multi_label = multi_label;
    EXPECT_EQ(SteadyAllocations(params_, {testing::Floats(values, {84, 1000})}), 1);
    EXPECT_EQ(SteadyAllocations(params_, {View(halves, DType::kFloat16, {84, 1000})}), 1);
  }
}

TEST_F(Allocation, OfYolov5IsTheResultOnly) {
  params_.head.family = HeadFamily::kYolov5;
  params_.head.score_threshold = 0.1;
  const std::vector<float> values = RandomHead(int64_t{85} * 1000);
  EXPECT_EQ(SteadyAllocations(params_, {testing::Floats(values, {1000, 85})}), 1);
}

TEST_F(Allocation, OfEnd2EndAndClassificationIsTheResultOnly) {
  params_.head.family = HeadFamily::kEnd2End;
  const std::vector<float> rows(size_t{6} * 300, 0.0F);
  EXPECT_EQ(SteadyAllocations(params_, {testing::Floats(rows, {300, 6})}), 1);
  params_.head.family = HeadFamily::kClassification;
  params_.head.num_classes = 1000;
  const std::vector<float> logits = RandomHead(1000);
  EXPECT_EQ(SteadyAllocations(params_, {testing::Floats(logits, {1000})}), 1);
}

TEST_F(Allocation, OfMasksIsNone) {
  const std::vector<float> pixels = RandomHead(int64_t{8} * 40 * 40);
  const std::vector<float> coefficients = {1, -1, 1, -1, 1, -1, 1, -1};
  const std::vector<float> box = {10, 20, 150, 140};
  const MaskPrototypes prototypes{pixels.data(), 8, 40, 40};
  const MaskPlan plan{MaskResolution::kInput, 160, 160, nullptr};
  std::vector<uint8_t> packed(ComputeMaskSize(prototypes, plan).packed_bytes());
  std::vector<std::string> rle;
  int before = 0;
  for (int call = 0; call < 3; ++call) {
    before = allocations.load();
    WritePackedMasks(prototypes, {coefficients, box, {}}, plan, Implementation::kSimd,
                     packed.data());
    EncodeMasks(prototypes, {coefficients, box, {}}, plan, Implementation::kSimd, rle);
  }
  EXPECT_EQ(allocations.load() - before, 0);
  EXPECT_GT(rle[0].size(), 500U);  // more than a string holds in itself
}

TEST_F(Allocation, OfRotatedNmsIsNone) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> place(0.0F, 500.0F);
  std::uniform_real_distribution<float> side(5.0F, 80.0F);
  std::vector<float> boxes;
  std::vector<float> scores;
  std::vector<int32_t> class_ids;
  for (int i = 0; i < 2000; ++i) {
    boxes.insert(boxes.end(), {place(random), place(random), side(random), side(random), 1.0F});
    scores.push_back(place(random));
    class_ids.push_back(i % 15);
  }
  for (const RotatedNms method :
       {RotatedNms::kPolygon, RotatedNms::kProbiou, RotatedNms::kProbiouFast}) {
    std::vector<int64_t> kept;
    NmsRotated(boxes, scores, class_ids, {0.4, -1, method}, kept);
    const int before = allocations;
    NmsRotated(boxes, scores, class_ids, {0.4, -1, method}, kept);
    EXPECT_EQ(allocations - before, 0) << RotatedNmsNames()[static_cast<size_t>(method)];
    EXPECT_GT(kept.size(), 100U);
  }
}

}  // namespace
}  // namespace endcap
