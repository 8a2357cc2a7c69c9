#include <array>

#include "box_decode/anchor_grid.h"
#include "box_decode/families.h"

namespace endcap {

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

}  // namespace endcap
