#include "endcap/postprocess.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "error_matchers.h"

namespace endcap {
namespace {

using testing::Throws;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Memory for the outputs of one image with K rows, filled with what must not stay.
struct Rows {
  int32_t num = -7;
  std::vector<float> boxes, scores;
  std::vector<int32_t> classes, indices;
  int32_t status = -7;

  explicit Rows(size_t k) : boxes(4 * k, -7.0F), scores(k, -7.0F), classes(k, -7), indices(k, -7) {}

  PostprocessOutput Views(const PostprocessParams& params) {
    const std::vector<void*> memory = {&num,           boxes.data(),   scores.data(),
                                       classes.data(), indices.data(), &status};
    PostprocessOutput output;
    const auto specs = PostprocessOutputs(params);
    for (size_t i = 0; i < specs.size(); ++i) {
      TensorView view;
      view.data = memory[i];
      view.dtype = specs[i].dtype;
      view.shape = specs[i].shape;
      view.rank = specs[i].rank;
      output.tensors.push_back(view);
    }
    return output;
  }
};

ConstTensorView Head(const std::vector<float>& values, int64_t rows, int64_t columns) {
  ConstTensorView view;
  view.data = values.data();
  view.shape = {rows, columns};
  view.rank = 2;
  return view;
}

PostprocessParams Yolov8Params(int num_classes, int max_detections) {
  PostprocessParams params;
  params.head.num_classes = num_classes;
  params.max_detections = max_detections;
  return params;
}

// Anchors 0 and 1 overlap by 81/119; anchor 2 stands apart. Two classes, [6, 3].
const std::vector<float> kHead = {50, 51, 90, 50,   51,   90,   10, 10, 10,
                                  10, 10, 10, 0.9F, 0.8F, 0.5F, 0,  0,  0};

TEST(Postprocess, ABadHeadFailsAlone) {
  const PostprocessParams params = Yolov8Params(2, 2);
  std::vector<float> good = kHead;
  std::vector<float> bad = good;
  bad[7] = kNan;
  std::vector<Rows> rows(3, Rows(2));
  std::vector<PostprocessInput> inputs;
  std::vector<PostprocessOutput> outputs;
  for (size_t i = 0; i < 3; ++i) {
    inputs.push_back({{Head(i == 1 ? bad : good, 6, 3)}, nullptr, 0});
    outputs.push_back(rows[i].Views(params));
  }
  Postprocessor postprocessor(params, 2);
  const auto items = postprocessor.Run(inputs, outputs);
  EXPECT_EQ(items[1].status.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(rows[1].status, static_cast<int32_t>(ErrorCode::kInvalidArgument));
  EXPECT_EQ(rows[1].num, 0);
  for (const size_t i : {size_t{0}, size_t{2}}) {
    EXPECT_TRUE(items[i].status.ok());
    EXPECT_EQ(rows[i].indices, (std::vector<int32_t>{0, 1}));
  }
}

TEST(Postprocess, WrongOutputsAreRefused) {
  const PostprocessParams params = Yolov8Params(2, 2);
  const std::vector<float> head = kHead;
  Postprocessor postprocessor(params, 1);
  const std::vector<PostprocessInput> inputs = {{{Head(head, 6, 3)}}};
  Rows rows(2);
  PostprocessOutput wrong = rows.Views(params);
  wrong.tensors[1].shape[0] = 3;
  const auto code = ErrorCode::kInvalidArgument;
  EXPECT_TRUE(
      Throws(code, "detection_boxes", [&] { postprocessor.Run(inputs, std::vector{wrong}); }));
  EXPECT_TRUE(Throws(code, "", [&] { postprocessor.Run(inputs, {}); }));
}

TEST(Postprocess, EnqueueOnTheCpuWritesStatuses) {
  const PostprocessParams params = Yolov8Params(2, 4);
  Postprocessor postprocessor(params, DeviceId{}, 2);
  EXPECT_EQ(postprocessor.device(), DeviceId{});
  EXPECT_EQ(postprocessor.threads(), 2);
  const std::vector<float> good = kHead;
  std::vector<float> bad = good;
  bad[3] = kNan;
  std::vector<Rows> rows(2, Rows(4));
  const std::vector<PostprocessOutput> outputs = {rows[0].Views(params), rows[1].Views(params)};
  const std::vector<PostprocessInput> inputs = {{{Head(good, 6, 3)}}, {{Head(bad, 6, 3)}}};
  postprocessor.Enqueue(inputs, outputs, nullptr);
  EXPECT_EQ(rows[0].status, 0);
  EXPECT_EQ(rows[0].num, 3);
  EXPECT_EQ(rows[1].status, static_cast<int32_t>(ErrorCode::kInvalidArgument));
  EXPECT_EQ(rows[1].num, 0);
}

TEST(Postprocess, TheCpuRefusesGpuMemory) {
  const PostprocessParams params = Yolov8Params(2, 4);
  Postprocessor postprocessor(params, 1);
  const std::vector<float> head = kHead;
  const std::vector<float> geometry(Geometry::kSize, 1.0F);
  Rows rows(4);
  const std::vector<PostprocessOutput> outputs = {rows.Views(params)};
  std::vector<PostprocessInput> inputs = {{{Head(head, 6, 3)}}};
  inputs[0].geometry = geometry.data();
  inputs[0].geometry_device = Device::kCuda;
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "the geometry of item 0 is in GPU memory",
                     [&] { postprocessor.Run(inputs, outputs); }));
  inputs[0].geometry_device = Device::kCpu;
  inputs[0].head[0].device = Device::kCuda;
  EXPECT_EQ(postprocessor.Run(inputs, outputs).at(0).status.code, ErrorCode::kUnsupported);
  auto on_gpu = outputs;
  on_gpu[0].tensors[0].device = Device::kCuda;
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "CPU memory",
                     [&] { postprocessor.Run(inputs, on_gpu); }));
}

}  // namespace
}  // namespace endcap
