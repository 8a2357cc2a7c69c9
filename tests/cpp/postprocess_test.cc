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
std::vector<float> OverlappingHead(float second_class_of_anchor_1) {
  return {50,
          51,
          90,
          50,
          51,
          90,
          10,
          10,
          10,
          10,
          10,
          10,
          0.9F,
          second_class_of_anchor_1 > 0 ? 0.0F : 0.8F,
          0.5F,
          0,
          second_class_of_anchor_1,
          0};
}

PostprocessItem RunOne(const PostprocessParams& params, const std::vector<float>& head, Rows& rows,
                       const float* geometry = nullptr, int32_t status = 0) {
  Postprocessor postprocessor(params, 1);
  const std::vector<PostprocessInput> inputs = {{{Head(head, 6, 3)}, geometry, status}};
  const std::vector<PostprocessOutput> outputs = {rows.Views(params)};
  return postprocessor.Run(inputs, outputs).at(0);
}

TEST(Postprocess, SuppressesWithinAClass) {
  PostprocessParams params = Yolov8Params(2, 4);
  params.iou_threshold = 0.5;
  Rows rows(4);
  const auto item = RunOne(params, OverlappingHead(0), rows);
  EXPECT_TRUE(item.status.ok());
  EXPECT_EQ(item.num_detections, 2);
  EXPECT_EQ(rows.num, 2);
  EXPECT_EQ(rows.indices, (std::vector<int32_t>{0, 2, -1, -1}));
  EXPECT_EQ(rows.scores, (std::vector<float>{0.9F, 0.5F, 0, 0}));
  EXPECT_EQ(rows.boxes,
            (std::vector<float>{45, 45, 55, 55, 85, 85, 95, 95, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(rows.status, 0);
}

TEST(Postprocess, OtherClassesSuppressOnlyWhenAgnostic) {
  PostprocessParams params = Yolov8Params(2, 4);
  params.iou_threshold = 0.5;
  Rows apart(4);
  RunOne(params, OverlappingHead(0.8F), apart);
  EXPECT_EQ(apart.indices, (std::vector<int32_t>{0, 1, 2, -1}));
  EXPECT_EQ(apart.classes, (std::vector<int32_t>{0, 1, 0, 0}));
  params.class_agnostic = true;
  Rows together(4);
  RunOne(params, OverlappingHead(0.8F), together);
  EXPECT_EQ(together.indices, (std::vector<int32_t>{0, 2, -1, -1}));
}

TEST(Postprocess, MapsBoxesBackAndClipsThem) {
  const PostprocessParams params = Yolov8Params(2, 1);
  const Geometry geometry{0.5F, 0.25F, 40, 44, 25, 100, 1, 0};
  Rows rows(1);
  RunOne(params, OverlappingHead(0), rows, geometry.ToArray().data());
  // x: (45 - 40) / 0.5 and (55 - 40) / 0.5, clipped to 25; y: (45 - 44) / 0.25 and (55 - 44) /
  // 0.25.
  EXPECT_EQ(rows.boxes, (std::vector<float>{10, 4, 25, 44}));
}

TEST(Postprocess, DropsBoxesWithoutArea) {
  PostprocessParams params = Yolov8Params(2, 1);
  params.iou_threshold = 0.5;
  // x from 45.5 to 55.5 is the image: anchor 1's box reaches into it, and the best one, anchor 0's,
  // which overlaps it, is above.
  const Geometry geometry{1, 1, 40, 55.5F, 25, 100, 1, 0};
  Rows rows(1);
  const auto item = RunOne(params, OverlappingHead(0), rows, geometry.ToArray().data());
  EXPECT_EQ(item.num_detections, 1);
  EXPECT_EQ(rows.indices, std::vector<int32_t>{1});
  EXPECT_EQ(rows.boxes, (std::vector<float>{6, 0, 16, 0.5F}));
  Rows unmapped(1);
  RunOne(params, OverlappingHead(0), unmapped);
  EXPECT_EQ(unmapped.indices, std::vector<int32_t>{0});
}

TEST(Postprocess, ABlankImageStaysBlank) {
  Rows rows(2);
  const auto item = RunOne(Yolov8Params(2, 2), std::vector<float>(18, kNan), rows, nullptr, 1);
  EXPECT_TRUE(item.status.ok());
  EXPECT_EQ(rows.status, 1);
  EXPECT_EQ(rows.num, 0);
  EXPECT_EQ(rows.indices, (std::vector<int32_t>{-1, -1}));
}

TEST(Postprocess, ABadHeadFailsAlone) {
  const PostprocessParams params = Yolov8Params(2, 2);
  std::vector<float> good = OverlappingHead(0);
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

TEST(Postprocess, BadGeometryFailsTheItem) {
  for (const float scale : {0.0F, -1.0F, kNan}) {
    const Geometry geometry{scale, 1, 0, 0, 10, 10, 1, 0};
    Rows rows(2);
    const auto item =
        RunOne(Yolov8Params(2, 2), OverlappingHead(0), rows, geometry.ToArray().data());
    EXPECT_EQ(item.status.code, ErrorCode::kInvalidArgument);
    EXPECT_NE(item.status.message.find("geometry"), std::string::npos);
  }
}

TEST(Postprocess, OutputsThatNobodyWantsAreSkipped) {
  const PostprocessParams params = Yolov8Params(2, 2);
  const std::vector<float> head = OverlappingHead(0);
  Rows rows(2);
  PostprocessOutput output = rows.Views(params);
  for (const size_t skipped : {0, 2, 3, 4, 5}) output.tensors[skipped].data = nullptr;
  Postprocessor postprocessor(params, 1);
  const std::vector<PostprocessInput> inputs = {{{Head(head, 6, 3)}}};
  EXPECT_EQ(postprocessor.Run(inputs, std::vector{output})[0].num_detections, 2);
  EXPECT_EQ(rows.boxes[0], 45);
  EXPECT_EQ(rows.num, -7);
}

TEST(Postprocess, WrongOutputsAreRefused) {
  const PostprocessParams params = Yolov8Params(2, 2);
  const std::vector<float> head = OverlappingHead(0);
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
  const std::vector<float> good = OverlappingHead(0);
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
  const std::vector<float> head = OverlappingHead(0);
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

TEST(Params, NameHeadAndFields) {
  const auto params = ParsePostprocessParams({{"head", "yolov5"},
                                              {"num_classes", "7"},
                                              {"iou_threshold", "0.5"},
                                              {"input_size", "480,320"}});
  EXPECT_EQ(params.head.family, HeadFamily::kYolov5);
  EXPECT_EQ(params.head.num_classes, 7);
  EXPECT_EQ(params.head.input_height, 480);
  EXPECT_EQ(params.head.input_width, 320);
  EXPECT_EQ(params.head.score_threshold, 0.25);
  EXPECT_EQ(params.max_detections, 300);
}

TEST(Params, RefusalsNameTheParameter) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"head", "yolov99"},        {"num_classes", "0"},    {"iou_threshold", "1.1"},
      {"score_threshold", "nan"}, {"max_candidates", "0"}, {"max_detections", "-1"},
      {"activation", "relu"},     {"box_unit", "furlong"}, {"unknown_one", "1"}};
  for (const auto& [name, text] : bad) {
    EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, name,
                       [&, n = name, t = text] { ParsePostprocessParams({{n, t}}); }))
        << name << " = " << text;
  }
}

TEST(Params, StructsAreCheckedAsTextsAre) {
  const auto refused = [](auto set) {
    PostprocessParams params;
    set(params.head);
    EXPECT_THROW(Validate(params), Error);
  };
  refused([](HeadParams& head) { head.keypoint_values = 1; });
  refused([](HeadParams& head) { head.num_keypoints = -1; });
  refused([](HeadParams& head) { head.mask_coefficients = 0; });
  refused([](HeadParams& head) { head.prototype_height = -1; });
  refused([](HeadParams& head) { head.input_width = 0; });
  refused([](HeadParams& head) {
    head.family = HeadFamily::kSsd;
    head.anchors = AnchorSource::kGrid;
    head.anchor_grid = {{0.0, {{8.0, 8.0}}}};
  });
}

TEST(Params, DescriptionsReadBack) {
  const auto described = DescribePostprocessParams(Yolov8Params(3, 11));
  ParameterList list;
  for (const ParameterInfo& row : described) list.emplace_back(row.name, row.value);
  const auto again = DescribePostprocessParams(ParsePostprocessParams(list));
  for (size_t i = 0; i < again.size(); ++i) EXPECT_EQ(again[i].value, described[i].value);
}

}  // namespace
}  // namespace endcap
