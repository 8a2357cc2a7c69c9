// The C functions of postprocessing and suppression against the classes behind them, bit for bit.

#include <gtest/gtest.h>

#include "c_api_detections.h"
#include "endcap/nms.h"

namespace endcap {
namespace {

using namespace endcap::testing;  // NOLINT(google-build-using-namespace): the file's own fixtures

// Of each layout of inputs and outputs.
const std::vector<ParameterList> kFamilies = {
    {{"head", "yolov8"}, {"num_classes", "3"}, {"max_detections", "8"}},
    {{"head", "efficient_nms"}},
    {{"head", "classification"}, {"num_classes", "6"}},
    {{"head", "yolov8_pose"}, {"num_classes", "1"}, {"num_keypoints", "2"}},
    {{"head", "yolov8_seg"},
     {"num_classes", "2"},
     {"prototype_size", "4"},
     {"input_size", "8"},
     {"mask_coefficients", "2"},
     {"mask_resolution", "input"},
     {"max_detections", "5"}},
};

void ExpectRows(const std::vector<TensorSpec>& expected, const endcap_tensor_spec* rows,
                size_t count) {
  ASSERT_EQ(count, expected.size());
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(rows[i].name, expected[i].name);
    EXPECT_EQ(rows[i].dtype, static_cast<int32_t>(expected[i].dtype));
    ASSERT_EQ(rows[i].rank, expected[i].rank);
    EXPECT_TRUE(std::equal(rows[i].shape, rows[i].shape + rows[i].rank, expected[i].shape.begin()));
  }
}

TEST(CApiPostprocess, TellsTheHeadAndTheOutputs) {
  for (const ParameterList& list : kFamilies) {
    SCOPED_TRACE(list[0].second);
    const PostprocessParams params = ParsePostprocessParams(list);
    const PostprocessorHandle handle = NewPostprocessor(list);
    const endcap_tensor_spec* rows = nullptr;
    size_t count = 0;
    ASSERT_EQ(endcap_postprocessor_inputs(handle.get(), &rows, &count), 0);
    ExpectRows(HeadInputs(params.head), rows, count);
    ASSERT_EQ(endcap_postprocessor_outputs(handle.get(), &rows, &count), 0);
    ExpectRows(PostprocessOutputs(params), rows, count);
    EXPECT_TRUE(
        Refused("rows is NULL", endcap_postprocessor_inputs(handle.get(), nullptr, &count)));
  }
  size_t count = 0;
  EXPECT_TRUE(
      Refused("postprocessor is NULL", endcap_postprocessor_outputs(nullptr, nullptr, &count)));
}

TEST(CApiPostprocess, ABatchIsThatOfTheCore) {
  for (const ParameterList& list : kFamilies) {
    SCOPED_TRACE(list[0].second);
    const PostprocessParams params = ParsePostprocessParams(list);
    const std::vector<HeadImage> images = MixedHeads(params);
    const DetectionResults expected = DetectionsByCore(params, images);
    EXPECT_EQ(expected.status[4], 0) << expected.messages[4];
    EXPECT_NE(expected.messages[3], "");
    for (const int32_t threads : {1, 2}) {
      const PostprocessorHandle handle = NewPostprocessor(list, ENDCAP_CPU, threads);
      DetectionCall call(handle.get(), params, images);
      ASSERT_EQ(call.Run(handle.get()), 0) << endcap_last_error();
      EXPECT_TRUE(call.Read() == expected);
    }
  }
}

TEST(CApiPostprocess, HandlesOnTheCpuAlwaysWait) {
  const PostprocessParams params = ParsePostprocessParams(kFamilies[0]);
  const std::vector<HeadImage> images = MixedHeads(params);
  const PostprocessorHandle handle = NewPostprocessor(kFamilies[0]);
  DetectionCall call(handle.get(), params, images);
  ASSERT_EQ(call.Run(handle.get(), nullptr, /*wait=*/0), 0);
  EXPECT_TRUE(call.Read() == DetectionsByCore(params, images));
  EXPECT_EQ(endcap_postprocessor_run(handle.get(), nullptr, 0, nullptr, 1), 0);
}

TEST(CApiPostprocess, OutputsThatNobodyWantsAreSkipped) {
  const PostprocessParams params = ParsePostprocessParams(kFamilies[0]);
  const std::vector<HeadImage> images = MixedHeads(params);
  const PostprocessorHandle handle = NewPostprocessor(kFamilies[0]);
  for (size_t skipped = 0; skipped < PostprocessOutputs(params).size(); ++skipped) {
    DetectionCall call(handle.get(), params, images, skipped);
    ASSERT_EQ(call.Run(handle.get()), 0) << endcap_last_error();
    EXPECT_TRUE(call.Read() == DetectionsByCore(params, images, skipped));
    EXPECT_EQ(call.results.tensors[0][skipped].back(), kUntouched);
  }
}

TEST(CApiPostprocess, AnItemWithAStatusNeedsNoHead) {
  const PostprocessParams params = ParsePostprocessParams(kFamilies[0]);
  const PostprocessorHandle handle = NewPostprocessor(kFamilies[0]);
  DetectionCall call(handle.get(), params, {MixedHeads(params)[1]});
  call.items[0].head = nullptr;
  ASSERT_EQ(call.Run(handle.get()), 0) << endcap_last_error();
  EXPECT_EQ(call.results.tensors[0].back(), (Bytes{1, 0, 0, 0}));
}

TEST(CApiPostprocess, ParametersThatCannotBeUsedMakeNoHandle) {
  endcap_postprocessor* made = nullptr;
  const auto refuse = [&](const endcap_parameter& parameter, int32_t device) {
    made = reinterpret_cast<endcap_postprocessor*>(&made);
    const endcap_status status = endcap_postprocessor_new(&parameter, 1, device, 1, &made);
    EXPECT_EQ(made, nullptr);
    return status;
  };
  EXPECT_TRUE(Refused("head", refuse({"head", "yolov99"}, ENDCAP_CPU)));
  EXPECT_TRUE(Refused("device is -2", refuse({"head", "yolov8"}, -2)));
  EXPECT_TRUE(
      Refused("parameters is NULL", endcap_postprocessor_new(nullptr, 3, ENDCAP_CPU, 1, &made)));
  EXPECT_TRUE(
      Refused("made is NULL", endcap_postprocessor_new(nullptr, 0, ENDCAP_CPU, 1, nullptr)));
}

TEST(CApiPostprocess, ArgumentsThatCannotBeUsedFailTheCallBeforeAnyWork) {
  const PostprocessParams params = ParsePostprocessParams(kFamilies[0]);
  const PostprocessorHandle handle = NewPostprocessor(kFamilies[0]);
  const std::vector<HeadImage> images = {MixedHeads(params)[0], MixedHeads(params)[0]};
  const auto refuses = [&](const std::string& part, auto change) {
    DetectionCall call(handle.get(), params, images);
    change(call);
    const auto result = Refused(part, call.Run(handle.get()));
    EXPECT_EQ(call.results.tensors[0][0].front(), kUntouched) << "work was begun";
    return result;
  };
  EXPECT_TRUE(refuses("item 1 has no head", [](auto& c) { c.items[1].head = nullptr; }));
  EXPECT_TRUE(refuses("item 1 has no outputs", [](auto& c) { c.items[1].outputs = nullptr; }));
  EXPECT_TRUE(refuses("geometry of item 1", [](auto& c) { c.items[1].geometry_on_gpu = 1; }));
  EXPECT_TRUE(refuses("head of item 1 has dtype 6", [](auto& c) { c.heads[1][0].dtype = 6; }));
  EXPECT_TRUE(refuses("head of item 1 has rank 5", [](auto& c) { c.heads[1][0].rank = 5; }));
  EXPECT_TRUE(refuses("head of item 1 has rank -1", [](auto& c) { c.heads[1][0].rank = -1; }));
  EXPECT_TRUE(
      refuses("a side of -3: give each from 0", [](auto& c) { c.heads[1][0].shape[0] = -3; }));
  EXPECT_TRUE(refuses("no array is that large", [](auto& c) {
    c.heads[1][0].shape[1] = std::numeric_limits<int64_t>::max();
  }));
  // The product of the sides is 2 to the 80th, which is 0 in 64 bits.
  EXPECT_TRUE(refuses("no array is that large", [](auto& c) {
    c.heads[1][0].shape[0] = c.heads[1][0].shape[1] = int64_t{1} << 40;
  }));
  EXPECT_TRUE(
      refuses("output detection_boxes of item 1", [](auto& c) { c.outputs[1][1].shape[0] = 9; }));
  EXPECT_TRUE(
      refuses("output detection_boxes of item 1", [](auto& c) { c.outputs[1][1].on_gpu = 1; }));
  EXPECT_TRUE(
      Refused("postprocessor is NULL", endcap_postprocessor_run(nullptr, nullptr, 0, nullptr, 1)));
  EXPECT_TRUE(
      Refused("items is NULL", endcap_postprocessor_run(handle.get(), nullptr, 1, nullptr, 1)));
  int stream = 0;
  EXPECT_TRUE(Refused("stream", endcap_postprocessor_run(handle.get(), nullptr, 0, &stream, 1)));
}

struct Boxes {
  std::vector<float> boxes;
  std::vector<float> scores;
  std::vector<int32_t> class_ids;

  explicit Boxes(size_t count) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
    for (size_t i = 0; i < count; ++i) {
      const float x = uniform(random);
      const float y = uniform(random);
      boxes.insert(boxes.end(), {x, y, x + uniform(random), y + uniform(random)});
      scores.push_back(uniform(random));
      class_ids.push_back(static_cast<int32_t>(i % 3));
    }
  }
};

TEST(CApiNms, KeepsWhatTheCoreKeeps) {
  const Boxes b(200);
  for (const bool classes : {false, true}) {
    for (const int64_t most : {int64_t{-1}, int64_t{0}, int64_t{4}}) {
      const std::span<const int32_t> class_ids =
          classes ? std::span(b.class_ids) : std::span<const int32_t>{};
      const auto expected = Nms(b.boxes, b.scores, class_ids, {0.3, most});
      std::vector<int64_t> kept(200, -1);
      int64_t count = -1;
      ASSERT_EQ(endcap_nms(b.boxes.data(), b.scores.data(), classes ? class_ids.data() : nullptr,
                           200, 0.3, most, kept.data(), &count),
                0)
          << endcap_last_error();
      kept.resize(static_cast<size_t>(count));
      EXPECT_EQ(kept, expected);
    }
  }
  int64_t count = -1;
  EXPECT_EQ(endcap_nms(nullptr, nullptr, nullptr, 0, 0.5, -1, nullptr, &count), 0);
  EXPECT_EQ(count, 0);
}

TEST(CApiNms, ArgumentsThatCannotBeUsedFailTheCall) {
  Boxes b(3);
  const float* boxes = b.boxes.data();
  const float* scores = b.scores.data();
  std::array<int64_t, 3> kept{};
  int64_t* to = kept.data();
  int64_t count = -1;
  const auto nms = [&](const float* of, const float* by, size_t number, double threshold,
                       int64_t* into, int64_t* counted) {
    return endcap_nms(of, by, nullptr, number, threshold, -1, into, counted);
  };
  EXPECT_TRUE(Refused("boxes is NULL", nms(nullptr, scores, 3, 0.5, to, &count)));
  EXPECT_TRUE(Refused("scores is NULL", nms(boxes, nullptr, 3, 0.5, to, &count)));
  EXPECT_TRUE(Refused("kept is NULL", nms(boxes, scores, 3, 0.5, nullptr, &count)));
  EXPECT_TRUE(Refused("kept_count is NULL", nms(boxes, scores, 3, 0.5, to, nullptr)));
  EXPECT_TRUE(Refused("count is", nms(boxes, scores, size_t{1} << 33, 0.5, to, &count)));
  EXPECT_TRUE(Refused("iou_threshold is 1.5", nms(boxes, scores, 3, 1.5, to, &count)));
  EXPECT_TRUE(Refused("max_detections is -2: give how many",
                      endcap_nms(boxes, scores, nullptr, 3, 0.5, -2, to, &count)));
  b.scores[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(Refused("score 1 is NaN", nms(boxes, scores, 3, 0.5, to, &count)));
  EXPECT_EQ(count, -1);
}

}  // namespace
}  // namespace endcap
