#include <algorithm>

#include "common/fail.h"
#include "endcap/postprocess.h"
#include "postprocess/param_limits.h"

namespace endcap {
namespace {

void RequireRange(std::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    FailArgument(name, " is ", value, ": give ", low, " to ", high);
  }
}

// What the table keeps text from, for who fills the struct.
void ValidateSizes(const PostprocessParams& params) {
  const HeadParams& head = params.head;
  RequireRange("input_size", std::min(head.input_height, head.input_width), 1, kMaxInputSide);
  RequireRange("input_size", std::max(head.input_height, head.input_width), 1, kMaxInputSide);
  RequireRange("prototype_size", std::min(head.prototype_height, head.prototype_width), 1,
               kMaxInputSide);
  RequireRange("prototype_size", std::max(head.prototype_height, head.prototype_width), 1,
               kMaxInputSide);
  RequireRange("mask_coefficients", head.mask_coefficients, 1, kMaxExtraValues);
  RequireRange("num_keypoints", head.num_keypoints, 1, kMaxExtraValues);
  RequireRange("keypoint_values", head.keypoint_values, 2, 3);
  for (const TensorSpec& spec : PostprocessOutputs(params)) {
    TensorView view;
    view.shape = spec.shape;
    view.rank = spec.rank;
    view.dtype = spec.dtype;
    const auto bytes = static_cast<int64_t>(view.size_bytes());
    if (bytes <= kMaxOutputBytes) continue;
    FailArgument(
        spec.name, " would take ", bytes, " bytes for each image, and ", kMaxOutputBytes,
        " are the limit: lower max_detections",
        spec.name == "detection_masks" ? ", or take mask_resolution=source and run lengths" : "");
  }
}

bool IsSsd(const HeadParams& head) { return head.family == HeadFamily::kSsd; }

void ValidateAnchors(const HeadParams& head) {
  const bool uses_grid = head.anchors == AnchorSource::kGrid;
  if (uses_grid == head.anchor_grid.empty()) {
    FailArgument(uses_grid
                     ? "anchors is grid, and anchor_grid is missing: describe its levels, for "
                       "example 8:16x16,32x32;16:64x64"
                     : "anchor_grid was given, and anchors is not grid: give anchors=grid");
  }
  for (const AnchorLevel& level : head.anchor_grid) {
    if (!(level.stride >= 1.0)) FailArgument("anchor_grid has a stride of ", level.stride);
  }
  const int64_t anchors = HeadInputs(head)[0].shape[0];
  if (anchors > kMaxAnchors) {
    FailArgument("anchor_grid and input_size make ", anchors, " anchors: at most ", kMaxAnchors,
                 " can be read");
  }
  if (uses_grid && head.ResolvedBoxUnit() == BoxUnit::kNormalized) {
    FailArgument("box_unit is normalized with anchors=grid: the grid is in pixels");
  }
}

void ValidateClassification(const HeadParams& head) {
  if (head.ResolvedTopK() > head.num_classes) {
    FailArgument("top_k is ", head.ResolvedTopK(), " with num_classes ", head.num_classes,
                 ": give at most num_classes");
  }
  if (head.ResolvedMultiLabel() && head.ResolvedActivation() == Activation::kSoftmax) {
    FailArgument(
        "multi_label is true with head classification and activation softmax, whose scores "
        "compete: give activation=sigmoid, or none where the network has applied it");
  }
}

}  // namespace

void Validate(const PostprocessParams& params) {
  const HeadParams& head = params.head;
  const bool classifies = head.family == HeadFamily::kClassification;
  if (classifies) ValidateClassification(head);
  const bool takes_softmax = classifies || head.family == HeadFamily::kRtdetr || IsSsd(head);
  if (!takes_softmax && head.activation == Activation::kSoftmax) {
    FailArgument("activation is softmax with head ", HeadFamilyName(head.family),
                 ": give none or sigmoid");
  }
  ValidateSizes(params);
  if (IsSsd(head)) ValidateAnchors(head);
  if (head.family == HeadFamily::kYolov8Obb && head.box_format == BoxFormat::kXyxy) {
    FailArgument("box_format is xyxy with head yolov8_obb: rotated boxes are centres and sizes");
  }
  if (head.num_classes < 1 || head.max_candidates < 1 || params.max_detections < 1 ||
      head.ResolvedTopK() < 1) {
    FailArgument("num_classes, max_candidates, max_detections and top_k must be at least 1");
  }
  const auto in_unit = [](double value) { return value >= 0.0 && value <= 1.0; };
  if (!in_unit(head.score_threshold) || !in_unit(params.iou_threshold)) {
    FailArgument("score_threshold and iou_threshold must be from 0 to 1");
  }
}

}  // namespace endcap
