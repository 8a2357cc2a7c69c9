#include "box_decode/families.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "box_decode/anchors.h"
#include "box_decode/score.h"
#include "common/fail.h"
#include "common/score_order.h"

namespace endcap {
namespace {

TensorSpec Vector(std::string_view name, int64_t size, DType dtype = DType::kFloat32) noexcept {
  return {name, dtype, {size}, 1};
}

TensorSpec Matrix(std::string_view name, int64_t rows, int64_t columns) noexcept {
  return {name, DType::kFloat32, {rows, columns}, 2};
}

HeadSpecs MakeYolov5Specs(const HeadParams& params) noexcept {
  return {{Matrix("head", -1, 5 + int64_t{params.num_classes})}, 1};
}

// arXiv 2107.08430: the centre moves from the cell's upper left corner by parts of the stride.
AnchorSettings GetYoloxAnchors(const HeadParams& params) noexcept {
  // Cells of 8, 16 and 32 pixels with one anchor each, as large as the cell.
  static const std::vector<AnchorLevel> kGrid = {
      {8.0, {{8.0, 8.0}}}, {16.0, {{16.0, 16.0}}}, {32.0, {{32.0, 32.0}}}};
  return {.source = AnchorSource::kGrid,
          .grid = params.anchor_grid.empty() ? &kGrid : &params.anchor_grid,
          .offset = 0.0,
          .variances = {1.0, 1.0, 1.0, 1.0},
          .max_log_size = std::numeric_limits<double>::infinity()};
}

HeadSpecs MakeYoloxSpecs(const HeadParams& params) noexcept {
  return {{Matrix("head", AnchorCount(params), 5 + int64_t{params.num_classes})}, 1};
}

HeadSpecs MakeYolov8Specs(const HeadParams& params) noexcept {
  return {{Matrix("head", 4 + int64_t{params.num_classes} + ExtraValues(params), -1)}, 1};
}

HeadSpecs MakeEnd2EndSpecs(const HeadParams& params) noexcept {
  return {{Matrix("head", -1, 6 + int64_t{ExtraValues(params)})}, 1};
}

HeadSpecs MakeRtdetrSpecs(const HeadParams& params) noexcept {
  const int64_t columns = ScoreColumns(params);
  if (params.joined) return {{Matrix("head", -1, 4 + columns)}, 1};
  return {{Matrix("logits", -1, columns), Matrix("boxes", -1, 4)}, 2};
}

Activation GetRtdetrActivation(const HeadParams& params) noexcept {
  return params.joined ? Activation::kNone : Activation::kSigmoid;
}

HeadSpecs MakeSsdSpecs(const HeadParams& params) noexcept {
  const int64_t anchors = params.anchors == AnchorSource::kGrid ? AnchorCount(params) : -1;
  HeadSpecs heads = {{Matrix("boxes", anchors, 4), Matrix("scores", anchors, ScoreColumns(params))},
                     2};
  if (params.anchors == AnchorSource::kInput) heads.specs[heads.count++] = Matrix("anchors", -1, 4);
  return heads;
}

AnchorSettings GetSsdAnchors(const HeadParams& params) noexcept {
  return {params.anchors, &params.anchor_grid, params.anchor_offset, params.variances, kMaxLogSize};
}

Activation GetSsdActivation(const HeadParams& params) noexcept {
  return params.ResolvedBackground() == Background::kNone ? Activation::kSigmoid
                                                          : Activation::kSoftmax;
}

HeadSpecs MakeEfficientNmsSpecs(const HeadParams& /*params*/) noexcept {
  return {{Vector("num_detections", 1, DType::kInt32), Matrix("boxes", -1, 4), Vector("scores", -1),
           Vector("classes", -1, DType::kInt32)},
          4};
}

HeadSpecs MakeDetectionsSpecs(const HeadParams& /*params*/) noexcept {
  return {{Matrix("boxes", -1, 4), Vector("scores", -1), Vector("classes", -1, DType::kInt32)}, 3};
}

HeadSpecs MakeClassificationSpecs(const HeadParams& params) noexcept {
  return {{Vector("logits", params.num_classes)}, 1};
}

HeadSpecs MakeSemanticSpecs(const HeadParams& params) noexcept {
  if (params.class_map) return {{TensorSpec{"class_map", DType::kUint8, {-1, -1}, 2}}, 1};
  return {{TensorSpec{"logits", DType::kFloat32, {params.num_classes, -1, -1}, 3}}, 1};
}

// An entry without one of the fields that have no default does not compile.
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wmissing-field-initializers"

// yolov8 and the families with more rows below its scores.
constexpr HeadFamilyInfo MakeYolov8Family(HeadFamily family, std::string_view name,
                                          HeadExtra extra) {
  return {.family = family,
          .name = name,
          .layout = HeadLayout::kAnchorColumns,
          .specs = MakeYolov8Specs,
          .rows_axis = 1,
          .scalar = DecodeYolov8,
          .simd = DecodeYolov8Simd,
          .needs_nms = true,
          .extra = extra,
          .box_format = BoxFormat::kCxcywh};
}

// end2end and the families with more values in its rows.
constexpr HeadFamilyInfo MakeEnd2EndFamily(HeadFamily family, std::string_view name,
                                           HeadExtra extra) {
  return {.family = family,
          .name = name,
          .layout = HeadLayout::kEnd2EndRows,
          .specs = MakeEnd2EndSpecs,
          .scalar = DecodeEnd2End,
          .simd = DecodeEnd2End,
          .extra = extra,
          .box_format = extra == HeadExtra::kAngle ? BoxFormat::kCxcywh : BoxFormat::kXyxy};
}

// rtdetr, and with the masks of its queries.
constexpr HeadFamilyInfo MakeRtdetrFamily(HeadFamily family, std::string_view name,
                                          HeadExtra extra) {
  return {.family = family,
          .name = name,
          .layout = HeadLayout::kScoreRows,
          .specs = MakeRtdetrSpecs,
          .scalar = DecodeScoreRows,
          .simd = DecodeScoreRowsSimd,
          .extra = extra,
          .box_format = BoxFormat::kCxcywh,
          .box_unit = BoxUnit::kNormalized,
          .multi_label = true,
          .activation = GetRtdetrActivation,
          .allows_softmax = true};
}

// In the order of the enum.
constexpr std::array<HeadFamilyInfo, kHeadFamilyCount> kFamilies = {{
    {.family = HeadFamily::kYolov5,
     .name = "yolov5",
     .layout = HeadLayout::kObjectnessRows,
     .specs = MakeYolov5Specs,
     .scalar = DecodeYolov5,
     .simd = DecodeYolov5Simd,
     .needs_nms = true,
     .box_format = BoxFormat::kCxcywh},
    {.family = HeadFamily::kYolox,
     .name = "yolox",
     .layout = HeadLayout::kObjectnessRows,
     .specs = MakeYoloxSpecs,
     .scalar = DecodeYolov5,
     .simd = DecodeYolov5Simd,
     .needs_nms = true,
     .box_format = BoxFormat::kCxcywh,
     .anchors = GetYoloxAnchors},
    MakeYolov8Family(HeadFamily::kYolov8, "yolov8", HeadExtra::kNone),
    MakeYolov8Family(HeadFamily::kYolov8Seg, "yolov8_seg", HeadExtra::kMaskCoefficients),
    MakeYolov8Family(HeadFamily::kYolov8Pose, "yolov8_pose", HeadExtra::kKeypoints),
    MakeYolov8Family(HeadFamily::kYolov8Obb, "yolov8_obb", HeadExtra::kAngle),
    MakeEnd2EndFamily(HeadFamily::kEnd2End, "end2end", HeadExtra::kNone),
    MakeEnd2EndFamily(HeadFamily::kEnd2EndSeg, "end2end_seg", HeadExtra::kMaskCoefficients),
    MakeEnd2EndFamily(HeadFamily::kEnd2EndPose, "end2end_pose", HeadExtra::kKeypoints),
    MakeEnd2EndFamily(HeadFamily::kEnd2EndObb, "end2end_obb", HeadExtra::kAngle),
    MakeRtdetrFamily(HeadFamily::kRtdetr, "rtdetr", HeadExtra::kNone),
    MakeRtdetrFamily(HeadFamily::kRtdetrSeg, "rtdetr_seg", HeadExtra::kMaskLogits),
    {.family = HeadFamily::kSsd,
     .name = "ssd",
     .layout = HeadLayout::kScoreRows,
     .specs = MakeSsdSpecs,
     .scalar = DecodeScoreRows,
     .simd = DecodeScoreRowsSimd,
     .needs_nms = true,
     .background = Background::kFirst,
     .multi_label = true,
     .activation = GetSsdActivation,
     .allows_softmax = true,
     .anchors = GetSsdAnchors},
    {.family = HeadFamily::kEfficientNms,
     .name = "efficient_nms",
     .layout = HeadLayout::kDetectionRows,
     .specs = MakeEfficientNmsSpecs,
     .rows_input = 1,
     .scalar = DecodeDetectionRows,
     .simd = DecodeDetectionRows},
    {.family = HeadFamily::kDetections,
     .name = "detections",
     .layout = HeadLayout::kDetectionRows,
     .specs = MakeDetectionsSpecs,
     .scalar = DecodeDetectionRows,
     .simd = DecodeDetectionRows},
    {.family = HeadFamily::kClassification,
     .name = "classification",
     .layout = HeadLayout::kLogits,
     .specs = MakeClassificationSpecs,
     .activation = [](const HeadParams&) noexcept { return Activation::kSoftmax; },
     .allows_softmax = true},
    {.family = HeadFamily::kSemantic,
     .name = "semantic",
     .layout = HeadLayout::kLogits,
     .specs = MakeSemanticSpecs,
     .per_pixel = true},
}};

#pragma GCC diagnostic pop

constexpr bool AreFamiliesConsistent() {
  for (size_t i = 0; i < kFamilies.size(); ++i) {
    const HeadFamilyInfo& info = kFamilies[i];
    const bool decodes = info.scalar != nullptr && info.simd != nullptr;
    if (static_cast<size_t>(info.family) != i || info.specs == nullptr ||
        decodes == (info.layout == HeadLayout::kLogits)) {
      return false;
    }
    // The layouts whose extra values AnchorValues can find.
    if (info.extra != HeadExtra::kNone && info.extra != HeadExtra::kMaskLogits &&
        info.layout != HeadLayout::kAnchorColumns && info.layout != HeadLayout::kEnd2EndRows) {
      return false;
    }
    // The layouts whose decode functions and kernels read anchors.
    if (info.anchors != nullptr && info.layout != HeadLayout::kScoreRows &&
        info.layout != HeadLayout::kObjectnessRows) {
      return false;
    }
  }
  return true;
}
#ifndef __SANITIZE_ADDRESS__  // with UBSan GCC takes no address of a function for a constant
static_assert(
    AreFamiliesConsistent(),
    "a head family lacks its entry or its decode functions, or has extra values or anchors that "
    "nothing reads");
#endif

constexpr std::array<std::string_view, kHeadFamilyCount> kNames = [] {
  std::array<std::string_view, kHeadFamilyCount> names;
  std::transform(kFamilies.begin(), kFamilies.end(), names.begin(),
                 [](const HeadFamilyInfo& info) { return info.name; });
  return names;
}();

}  // namespace

const HeadFamilyInfo& GetFamily(HeadFamily family) noexcept {
  return kFamilies[static_cast<size_t>(family)];
}

HeadSpecs MakeHeadSpecs(const HeadParams& params) noexcept {
  HeadSpecs heads = GetFamily(params.family).specs(params);
  if (!HasMasks(params.family)) return heads;
  const bool of_queries = GetFamily(params.family).extra == HeadExtra::kMaskLogits;
  const int64_t count = of_queries ? -1 : params.mask_coefficients;
  heads.specs[heads.count++] = {of_queries ? "masks" : "protos",
                                DType::kFloat32,
                                {count, params.prototype_height, params.prototype_width},
                                3};
  return heads;
}

void CheckRowCounts(const HeadParams& params, HeadTensors inputs) {
  const HeadSpecs heads = MakeHeadSpecs(params);
  const size_t first = GetFamily(params.family).rows_input;
  for (size_t i = first + 1; i < heads.count; ++i) {
    const int64_t rows = inputs[i].shape[0];
    if (rows == inputs[first].shape[0]) continue;
    FailArgument(heads.specs[first].name, " has ", inputs[first].shape[0], " rows and ",
                 heads.specs[i].name, " has ", rows, ": they must have as many");
  }
}

std::span<const std::string_view> HeadFamilyNames() noexcept { return kNames; }

std::string_view HeadFamilyName(HeadFamily family) noexcept { return GetFamily(family).name; }

bool NeedsNms(HeadFamily family) noexcept { return GetFamily(family).needs_nms; }

bool IsClassification(HeadFamily family) noexcept {
  return GetFamily(family).layout == HeadLayout::kLogits && !IsSemantic(family);
}

bool IsSemantic(HeadFamily family) noexcept { return GetFamily(family).per_pixel; }

BoxFormat HeadParams::ResolvedBoxFormat() const noexcept {
  return box_format != BoxFormat::kFamilyDefault ? box_format : GetFamily(family).box_format;
}

BoxUnit HeadParams::ResolvedBoxUnit() const noexcept {
  return box_unit != BoxUnit::kFamilyDefault ? box_unit : GetFamily(family).box_unit;
}

Background HeadParams::ResolvedBackground() const noexcept {
  return background != Background::kFamilyDefault ? background : GetFamily(family).background;
}

Activation HeadParams::ResolvedActivation() const noexcept {
  if (activation != Activation::kFamilyDefault) return activation;
  const auto resolve = GetFamily(family).activation;
  return resolve == nullptr ? Activation::kNone : resolve(*this);
}

bool HeadParams::ResolvedMultiLabel() const noexcept {
  return multi_label.has_value() ? *multi_label : GetFamily(family).multi_label;
}

AnchorSettings ResolveAnchors(const HeadParams& params) noexcept {
  const auto resolve = GetFamily(params.family).anchors;
  return resolve == nullptr ? AnchorSettings{} : resolve(params);
}

void FillClassLimits(const HeadParams& params, std::vector<float>& limits) {
  limits.clear();
  const std::vector<double>& thresholds = params.score_thresholds;
  if (params.classes.empty() && thresholds.empty()) return;
  const auto count = static_cast<size_t>(std::max(params.num_classes, 0));
  if (!thresholds.empty() && thresholds.size() != count) {
    FailArgument("score_thresholds has ", thresholds.size(), " numbers, and num_classes is ", count,
                 ": give one number for each class");
  }
  const bool has_threshold = !IsClassification(params.family) || params.ResolvedMultiLabel();
  const auto limit = [&](size_t id) {
    if (!has_threshold) return kLowestScore;
    return GreatestFloatAtMost(thresholds.empty() ? params.score_threshold : thresholds[id]);
  };
  limits.assign(count, std::numeric_limits<float>::infinity());
  for (const int id : params.classes) {
    if (id < 0 || id >= params.num_classes) {
      FailArgument("classes has ", id, ", and num_classes is ", count,
                   ": give class ids from 0 to ", count - 1);
    }
    limits[static_cast<size_t>(id)] = limit(static_cast<size_t>(id));
  }
  if (!params.classes.empty()) return;
  for (size_t id = 0; id < count; ++id) limits[id] = limit(id);
}

float LowestLimit(const HeadParams& params, std::span<const float> limits) noexcept {
  if (limits.empty()) return GreatestFloatAtMost(params.score_threshold);
  return *std::min_element(limits.begin(), limits.end());
}

int ScoreColumns(const HeadParams& params) noexcept {
  return params.num_classes + (params.ResolvedBackground() == Background::kNone ? 0 : 1);
}

std::span<const DType> OtherDTypes(const TensorSpec& spec) noexcept {
  static constexpr std::array kHalf = {DType::kFloat16};
  static constexpr std::array kWide = {DType::kInt64};
  static constexpr std::array kIds = {DType::kInt32, DType::kInt64};
  if (spec.dtype == DType::kFloat32) return kHalf;
  if (spec.name == "classes") return kWide;
  if (spec.name == "class_map") return kIds;
  return {};
}

AnchorValues GetAnchorValues(const HeadParams& params) noexcept {
  if (GetFamily(params.family).layout == HeadLayout::kEnd2EndRows) {
    return {.row_length = 6 + static_cast<uint32_t>(ExtraValues(params)), .first_extra = 6};
  }
  return {.row_length = 0, .first_extra = 4 + static_cast<uint32_t>(params.num_classes)};
}

void FailAnchorValue(const HeadParams& params, float number, uint32_t value, uint32_t anchor) {
  if (GetAnchorValues(params).row_length == 0) {
    FailArgument("head has ", number, " in row ", value, " of anchor ", anchor,
                 ": check the network's input, or set on_nan=drop");
  }
  FailArgument("head has ", number, " in column ", value, " of row ", anchor,
               ": check the network's input, or set on_nan=drop");
}

void FailDropped(int64_t dropped, int64_t rows) {
  FailArgument("the head has numbers that are NaN or infinite in ", dropped, " of ", rows,
               " anchors or rows: check the network's input; on_nan=drop drops at most half");
}

DetectionRowsRule MakeDetectionRowsRule(const HeadParams& params) noexcept {
  const int32_t boxes = params.family == HeadFamily::kEfficientNms ? 1 : 0;
  const Background background = params.ResolvedBackground();
  DetectionRowsRule rule = {.count_input = boxes - 1,
                            .box_input = boxes,
                            .score_input = boxes + 1,
                            .class_input = boxes + 2,
                            .first_class = background == Background::kFirst ? 1 : 0,
                            .background = -1};
  if (background == Background::kFirst) rule.background = 0;
  if (background == Background::kLast) rule.background = params.num_classes;
  return rule;
}

int ExtraValues(const HeadParams& params) noexcept {
  switch (GetFamily(params.family).extra) {
    case HeadExtra::kNone:
    case HeadExtra::kMaskLogits:
      return 0;
    case HeadExtra::kMaskCoefficients:
      return params.mask_coefficients;
    case HeadExtra::kKeypoints:
      return params.num_keypoints * params.keypoint_values;
    case HeadExtra::kAngle:
      return 1;
  }
  return 0;
}

}  // namespace endcap
