#include "box_decode/families.h"

#include <array>

#include "box_decode/anchors.h"

namespace endcap {
namespace {

TensorSpec Vector(std::string_view name, int64_t size, DType dtype = DType::kFloat32) {
  return {name, dtype, {size}, 1};
}

TensorSpec Matrix(std::string_view name, int64_t rows, int64_t columns) {
  return {name, DType::kFloat32, {rows, columns}, 2};
}

HeadSpecs RtdetrSpecs(const HeadParams& params) noexcept {
  const int64_t columns = ScoreColumns(params);
  if (params.joined) return {{Matrix("head", -1, 4 + columns)}, 1};
  return {{Matrix("logits", -1, columns), Matrix("boxes", -1, 4)}, 2};
}

HeadSpecs SsdSpecs(const HeadParams& params) noexcept {
  const int64_t anchors = params.anchors == AnchorSource::kGrid ? AnchorCount(params) : -1;
  HeadSpecs heads = {{Matrix("boxes", anchors, 4), Matrix("scores", anchors, ScoreColumns(params))},
                     2};
  if (params.anchors == AnchorSource::kInput) heads.specs[heads.count++] = Matrix("anchors", -1, 4);
  return heads;
}

}  // namespace

std::span<const std::string_view> HeadFamilyNames() noexcept {
  static constexpr std::array<std::string_view, 10> kNames = {
      "yolov5",  "yolov8", "yolov8_seg", "yolov8_pose",   "yolov8_obb",
      "end2end", "rtdetr", "ssd",        "efficient_nms", "classification"};
  return kNames;
}

std::string_view HeadFamilyName(HeadFamily family) noexcept {
  return HeadFamilyNames()[static_cast<size_t>(family)];
}

bool HasYolov8Columns(HeadFamily family) noexcept {
  return family == HeadFamily::kYolov8 || family == HeadFamily::kYolov8Seg ||
         family == HeadFamily::kYolov8Pose || family == HeadFamily::kYolov8Obb;
}

bool NeedsNms(HeadFamily family) noexcept {
  return family == HeadFamily::kYolov5 || family == HeadFamily::kSsd || HasYolov8Columns(family);
}

BoxFormat HeadParams::ResolvedBoxFormat() const noexcept {
  if (box_format != BoxFormat::kFamilyDefault) return box_format;
  const bool from_centres =
      family == HeadFamily::kYolov5 || family == HeadFamily::kRtdetr || HasYolov8Columns(family);
  return from_centres ? BoxFormat::kCxcywh : BoxFormat::kXyxy;
}

BoxUnit HeadParams::ResolvedBoxUnit() const noexcept {
  if (box_unit != BoxUnit::kFamilyDefault) return box_unit;
  return family == HeadFamily::kRtdetr ? BoxUnit::kNormalized : BoxUnit::kPixel;
}

Background HeadParams::ResolvedBackground() const noexcept {
  if (background != Background::kFamilyDefault) return background;
  return family == HeadFamily::kSsd ? Background::kFirst : Background::kNone;
}

Activation HeadParams::ResolvedActivation() const noexcept {
  if (activation != Activation::kFamilyDefault) return activation;
  switch (family) {
    case HeadFamily::kClassification:
      return Activation::kSoftmax;
    case HeadFamily::kRtdetr:
      return joined ? Activation::kNone : Activation::kSigmoid;
    case HeadFamily::kSsd:
      return ResolvedBackground() == Background::kNone ? Activation::kSigmoid
                                                       : Activation::kSoftmax;
    default:
      return Activation::kNone;
  }
}

bool HeadParams::ResolvedMultiLabel() const noexcept {
  return multi_label.value_or(family == HeadFamily::kRtdetr || family == HeadFamily::kSsd);
}

int ScoreColumns(const HeadParams& params) noexcept {
  return params.num_classes + (params.ResolvedBackground() == Background::kNone ? 0 : 1);
}

int ExtraValues(const HeadParams& params) noexcept {
  switch (params.family) {
    case HeadFamily::kYolov8Seg:
      return params.mask_coefficients;
    case HeadFamily::kYolov8Pose:
      return params.num_keypoints * params.keypoint_values;
    case HeadFamily::kYolov8Obb:
      return 1;
    default:
      return 0;
  }
}

HeadSpecs MakeHeadSpecs(const HeadParams& params) noexcept {
  const int64_t classes = params.num_classes;
  const int64_t columns = 4 + classes + ExtraValues(params);
  switch (params.family) {
    case HeadFamily::kYolov5:
      return {{Matrix("head", -1, 5 + classes)}, 1};
    case HeadFamily::kYolov8:
    case HeadFamily::kYolov8Pose:
    case HeadFamily::kYolov8Obb:
      return {{Matrix("head", columns, -1)}, 1};
    case HeadFamily::kYolov8Seg:
      return {{Matrix("head", columns, -1),
               {"protos",
                DType::kFloat32,
                {params.mask_coefficients, params.prototype_height, params.prototype_width},
                3}},
              2};
    case HeadFamily::kEnd2End:
      return {{Matrix("head", -1, 6)}, 1};
    case HeadFamily::kRtdetr:
      return RtdetrSpecs(params);
    case HeadFamily::kSsd:
      return SsdSpecs(params);
    case HeadFamily::kEfficientNms:
      return {{Vector("num_detections", 1, DType::kInt32), Matrix("boxes", -1, 4),
               Vector("scores", -1), Vector("classes", -1, DType::kInt32)},
              4};
    case HeadFamily::kClassification:
      return {{Vector("logits", classes)}, 1};
  }
  return {};
}

}  // namespace endcap
