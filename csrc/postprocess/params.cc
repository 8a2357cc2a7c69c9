#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "box_decode/families.h"
#include "common/fail.h"
#include "common/param_reader.h"
#include "common/param_table.h"
#include "endcap/postprocess.h"

namespace endcap {
namespace {

constexpr int kMaxInputSide = 65535;
constexpr int kMaxExtraValues = 10000;
constexpr int64_t kMaxOutputBytes = int64_t{2} << 30;  // of one output of one image
constexpr int64_t kMaxAnchors = int64_t{1} << 30;

constexpr std::string_view kNoLevels = "none";
constexpr size_t kMaxLevels = 64;
constexpr size_t kMaxSizes = 1024;
constexpr double kMaxPixels = 65535.0;

// The text before `mark`, removed from `rest` with the mark; all of it where there is none.
std::string_view TakeUntil(char mark, std::string_view& rest) {
  const size_t end = rest.find(mark);
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

double ReadPixels(std::string_view text, double low) {
  return ReadNumber("anchor_grid", text, low, kMaxPixels);
}

AnchorLevel ReadLevel(std::string_view text) {
  std::string_view rest = text;
  const std::string_view stride = TakeUntil(':', rest);
  if (rest.empty()) {
    FailArgument("anchor_grid has the level '", text,
                 "': give its stride, a colon and sizes, for example 8:16x16,32x32");
  }
  AnchorLevel level;
  level.stride = ReadPixels(stride, 1.0);
  while (!rest.empty()) {
    std::string_view height = TakeUntil(',', rest);
    const std::string_view width = TakeUntil('x', height);
    level.sizes.push_back({ReadPixels(width, 0.001), ReadPixels(height, 0.001)});
    if (level.sizes.size() > kMaxSizes) {
      FailArgument("anchor_grid has a level of more than ", kMaxSizes, " sizes");
    }
  }
  return level;
}

// "8:16x16,22.6x22.6;16:32x32": levels with their stride, and widths and heights, all in pixels.
// "none" is not a level. Throws kInvalidArgument with the level that cannot be read.
std::vector<AnchorLevel> ReadAnchorGrid(std::string_view text) {
  std::vector<AnchorLevel> levels;
  if (text == kNoLevels) return levels;
  while (!text.empty()) {
    levels.push_back(ReadLevel(TakeUntil(';', text)));
    if (levels.size() > kMaxLevels)
      FailArgument("anchor_grid has more than ", kMaxLevels, " levels");
  }
  return levels;
}

// The elements as write(element), with a mark between.
template <typename List, typename Write>
std::string Join(const List& list, std::string_view mark, Write write) {
  std::string text;
  for (const auto& each : list) text.append(text.empty() ? "" : mark).append(write(each));
  return text;
}

std::string WriteAnchorGrid(const std::vector<AnchorLevel>& levels) {
  const auto write_size = [](const std::array<double, 2>& size) {
    return WriteNumber(size[0]) + "x" + WriteNumber(size[1]);
  };
  const auto write_level = [&](const AnchorLevel& level) {
    return WriteNumber(level.stride) + ":" + Join(level.sizes, ",", write_size);
  };
  return levels.empty() ? std::string(kNoLevels) : Join(levels, ";", write_level);
}

constexpr int kMaxClasses = 1000000;
constexpr int kMaxMapClasses = 256;  // of semantic, whose ids have 8 bits
constexpr int kMaxCandidates = 10000000;
constexpr int kMaxDetections = 100000;
constexpr double kMaxVariance = 1e6;

constexpr std::string_view kBoxFormats[] = {"default", "xyxy", "cxcywh"};
constexpr std::string_view kBoxUnits[] = {"default", "pixel", "normalized"};
constexpr std::string_view kActivations[] = {"default", "none", "sigmoid", "softmax"};
constexpr std::string_view kBackgrounds[] = {"default", "none", "first", "last"};
constexpr std::string_view kMaskResolutions[] = {"prototype", "input", "source"};
constexpr std::string_view kOnNan[] = {"error", "drop"};
constexpr std::string_view kAngleRanges[] = {"raw", "le90"};
constexpr std::string_view kMerges[] = {"none", "nms", "nmm"};
constexpr std::string_view kMergeMetrics[] = {"iou", "ios"};
constexpr std::string_view kClassMapResizes[] = {"bilinear", "nearest"};
constexpr std::string_view kAnchorSources[] = {"input", "grid", "none"};

using Params = PostprocessParams;

ParamField<Params> TopKField() {
  return {"top_k", "a whole number from 1 to num_classes",
          [](Params& p, std::string_view text) {
            p.head.top_k = static_cast<int>(ReadInteger("top_k", text, 1, kMaxClasses));
          },
          [](const Params& p) { return std::to_string(p.head.ResolvedTopK()); }};
}

ParamField<Params> MultiLabelField() {
  return {
      "multi_label", "true or false",
      [](Params& p, std::string_view text) { p.head.multi_label = ReadBool("multi_label", text); },
      [](const Params& p) { return WriteBool(p.head.ResolvedMultiLabel()); }};
}

ParamField<Params> AnchorGridField() {
  return {"anchor_grid", "none, or levels STRIDE:WxH,WxH,... with ; between, in pixels",
          [](Params& p, std::string_view text) { p.head.anchor_grid = ReadAnchorGrid(text); },
          [](const Params& p) { return WriteAnchorGrid(p.head.anchor_grid); }};
}

ParamField<Params> VariancesField() {
  return {"variances", "4 numbers, of the centre's x, y, the width and the height; or one for all",
          [](Params& p, std::string_view text) {
            const auto numbers = ReadNumbers("variances", text, p.head.variances.size());
            for (size_t i = 0; i < numbers.size(); ++i) {
              if (!(numbers[i] > 0.0 && numbers[i] <= kMaxVariance)) {
                FailArgument("variances has ", numbers[i], ": give numbers above 0, up to ",
                             kMaxVariance);
              }
              p.head.variances[i] = numbers[i];
            }
          },
          [](const Params& p) { return Join(p.head.variances, ",", WriteNumber); }};
}

constexpr std::string_view kAllClasses = "all";
constexpr std::string_view kNoThresholds = "none";

// Numbers with commas between; `nothing` is an empty list.
template <typename T, typename Read, typename Write>
ParamField<Params> ListField(std::string_view name, std::string_view nothing, std::string allowed,
                             std::vector<T> HeadParams::* list, Read read, Write write) {
  return {name, std::move(allowed),
          [=](Params& p, std::string_view text) {
            std::vector<T>& values = p.head.*list;
            values.clear();
            if (text == nothing) return;
            for (const std::string_view part : Split(text)) values.push_back(read(part));
          },
          [=](const Params& p) {
            const std::vector<T>& values = p.head.*list;
            return values.empty() ? std::string(nothing) : Join(values, ",", write);
          }};
}

ParamField<Params> ClassesField() {
  return ListField(
      "classes", kAllClasses, "all, or class ids with commas between", &HeadParams::classes,
      [](std::string_view part) {
        return static_cast<int>(ReadInteger("classes", part, 0, kMaxClasses - 1));
      },
      [](int id) { return std::to_string(id); });
}

ParamField<Params> ScoreThresholdsField() {
  return ListField(
      "score_thresholds", kNoThresholds, "none, or num_classes numbers from 0 to 1",
      &HeadParams::score_thresholds,
      [](std::string_view part) { return ReadNumber("score_thresholds", part, 0.0, 1.0); },
      WriteNumber);
}

// The parameter table, in the order in which people are shown it.
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name cannot stand in parentheses
#define FIELD(expression) [](auto& p) -> auto& { return p.expression; }
const ParamTable<Params>& Table() {
  static const ParamTable<Params> table = {
      Means("family of the model's raw output",
            EnumField<Params>("head", HeadFamilyNames(), FIELD(head.family))),
      Means("classes of the model; must fit the head's shape",
            IntegerField<Params>("num_classes", 1, kMaxClasses, FIELD(head.num_classes))),
      Means("a candidate's score must be greater",
            NumberField<Params>("score_threshold", 0.0, 1.0, FIELD(head.score_threshold))),
      Means("one score_threshold for each class; the head classification reads it with multi_label "
            "only",
            ScoreThresholdsField()),
      Means("classes that are kept, before max_candidates and suppression; without multi_label an "
            "anchor is left out if its best class is not one of them; semantic gives the other "
            "pixels ignore_label",
            ClassesField()),
      Means("a box is suppressed when its IoU with a kept box is greater",
            NumberField<Params>("iou_threshold", 0.0, 1.0, FIELD(iou_threshold))),
      Means("candidates that go into suppression, best scores first; a cut is reported",
            IntegerField<Params>("max_candidates", 1, kMaxCandidates, FIELD(head.max_candidates))),
      Means("rows of the outputs",
            IntegerField<Params>("max_detections", 1, kMaxDetections, FIELD(max_detections))),
      Means("every class over the threshold is a candidate, not only an anchor's best; for "
            "classification, the result holds only classes over the threshold; by default true for "
            "rtdetr, rtdetr_seg and ssd, otherwise false",
            MultiLabelField()),
      Means("boxes of different classes suppress each other",
            BoolField<Params>("class_agnostic", FIELD(class_agnostic))),
      Means(
          "inputs are the tiles of one image, whose boxes are merged: nms suppresses, nmm unites a "
          "box with those that it matches, as SAHI's GREEDYNMM; classes apart, unless "
          "class_agnostic; with masks, keypoints and angles nms only",
          EnumField<Params>("merge", kMerges, FIELD(merge))),
      Means("how boxes of tiles are compared: intersection over union, or over the smaller box",
            EnumField<Params>("merge_metric", kMergeMetrics, FIELD(merge_metric))),
      Means("boxes of tiles match when their merge_metric is greater, with nmm also when equal",
            NumberField<Params>("merge_threshold", 0.0, 1.0, FIELD(merge_threshold))),
      Means("a NaN or infinite number in the head fails its image; or its anchor is dropped and "
            "counted, and the image fails only where that is more than half of its anchors",
            EnumField<Params>("on_nan", kOnNan, FIELD(head.on_nan))),
      Means(
          "how the head gives boxes, and ssd its anchors; by default cxcywh for the yolo families, "
          "rtdetr, rtdetr_seg and end2end_obb, otherwise xyxy",
          EnumField<Params>("box_format", kBoxFormats, FIELD(head.box_format))),
      Means("pixels of the model's input, or fractions of it; by default normalized for rtdetr "
            "and rtdetr_seg, otherwise pixel",
            EnumField<Params>("box_unit", kBoxUnits, FIELD(head.box_unit))),
      Means("height and width of the model's input; for normalized boxes, anchor_grid and masks",
            SizeField<Params>("input_size", kMaxInputSide, FIELD(head.input_height),
                              FIELD(head.input_width))),
      Means("what turns raw numbers into scores; by default softmax for classification and for ssd "
            "with a background, sigmoid for ssd without one and for rtdetr and rtdetr_seg that are "
            "not joined, otherwise none",
            EnumField<Params>("activation", kActivations, FIELD(head.activation))),
      Means("how many classes the result has, best first, with multi_label at most; classification "
            "only; by default 5, or num_classes if that is less",
            TopKField()),
      Means("boxes and scores of rtdetr or rtdetr_seg are one tensor, head",
            BoolField<Params>("joined", FIELD(head.joined))),
      Means("the place of no object, which num_classes does not count: the column in the scores of "
            "rtdetr, rtdetr_seg and ssd, the class id of detections and efficient_nms; by default "
            "first for ssd, none otherwise",
            EnumField<Params>("background", kBackgrounds, FIELD(head.background))),
      Means("where ssd's anchors come from: a tensor, anchor_grid, or none, since the boxes are "
            "decoded already",
            EnumField<Params>("anchors", kAnchorSources, FIELD(head.anchors))),
      Means("the anchors of every level; rows are ordered by cells, and within a cell by sizes",
            AnchorGridField()),
      Means("where in its cell an anchor's centre is, in cells",
            NumberField<Params>("anchor_offset", 0.0, 1.0, FIELD(head.anchor_offset))),
      Means("what ssd's offsets are multiplied by before they move an anchor", VariancesField()),
      Means("how yolov8_obb's boxes are compared: polygon by exact IoU, probiou by probabilistic "
            "IoU, probiou_fast by the same where suppressed boxes suppress others, too",
            EnumField<Params>("rotated_nms", RotatedNmsNames(), FIELD(rotated_nms))),
      Means("angles of rotated boxes: as the network gives them, or from 0 to less than 90 degrees "
            "with width and height exchanged where needed, as ultralytics' predict() returns them",
            EnumField<Params>("angle_range", kAngleRanges, FIELD(angle_range))),
      Means("numbers for each anchor that weigh the prototypes of yolov8_seg and end2end_seg",
            IntegerField<Params>("mask_coefficients", 1, kMaxExtraValues,
                                 FIELD(head.mask_coefficients))),
      Means("height and width of the prototypes of yolov8_seg and end2end_seg, or of rtdetr_seg's "
            "masks",
            SizeField<Params>("prototype_size", kMaxInputSide, FIELD(head.prototype_height),
                              FIELD(head.prototype_width))),
      Means("pixels of the masks: of prototype_size, the model's input, or the source image; for "
            "semantic, prototype is the size of the network's output",
            EnumField<Params>("mask_resolution", kMaskResolutions, FIELD(mask_resolution))),
      Means("the semantic network gives class ids, input class_map, not logits",
            BoolField<Params>("class_map", FIELD(head.class_map))),
      Means("how semantic resizes: logits bilinearly, then the greatest wins; or the classes that "
            "win at the logits' size, to the nearest pixel, as always with class_map",
            EnumField<Params>("class_map_resize", kClassMapResizes, FIELD(class_map_resize))),
      Means(
          "semantic: the id of pixels whose class is not one of classes; also allowed in an input "
          "class_map",
          IntegerField<Params>("ignore_label", 0, kMaxMapClasses - 1, FIELD(ignore_label))),
      Means("keypoints of yolov8_pose and end2end_pose",
            IntegerField<Params>("num_keypoints", 1, kMaxExtraValues, FIELD(head.num_keypoints))),
      Means("numbers for each keypoint: x and y, or x, y and visibility",
            IntegerField<Params>("keypoint_values", 2, 3, FIELD(head.keypoint_values))),
  };
  return table;
}
#undef FIELD

void RequireRange(std::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    FailArgument(name, " is ", value, ": give ", low, " to ", high);
  }
}

// Repeats the limits of the table, for callers that fill the struct themselves.
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
    FailArgument(spec.name, " would take ", bytes, " bytes for each image, and ", kMaxOutputBytes,
                 " are the limit: lower max_detections",
                 spec.name == "detection_masks" ? ", or take mask_resolution=source and RLE" : "");
  }
}

void ValidateAnchors(const HeadParams& head) {
  const AnchorSettings settings = ResolveAnchors(head);
  const bool uses_grid = settings.source == AnchorSource::kGrid;
  if (uses_grid == settings.grid->empty()) {
    FailArgument(uses_grid
                     ? "anchors is grid, and anchor_grid is missing: describe its levels, for "
                       "example 8:16x16,32x32;16:64x64"
                     : "anchor_grid was given, and anchors is not grid: give anchors=grid");
  }
  for (const AnchorLevel& level : *settings.grid) {
    if (!(level.stride >= 1.0)) FailArgument("anchor_grid has a stride of ", level.stride);
  }
  const int64_t anchors = HeadInputs(head)[0].shape[0];
  if (anchors > kMaxAnchors) {
    FailArgument("anchor_grid and input_size make ", anchors, " anchors: at most ", kMaxAnchors,
                 " can be read");
  }
  if (uses_grid && head.ResolvedBoxUnit() == BoxUnit::kNormalized) {
    FailArgument("box_unit is normalized with a grid of anchors, which is in pixels");
  }
}

void ValidateMerge(const PostprocessParams& params) {
  if (params.merge == Merge::kNone) return;
  const HeadFamilyInfo& family = GetFamily(params.head.family);
  if (IsClassification(family.family) || IsSemantic(family.family)) {
    FailArgument("merge is for boxes, and head ", family.name, " has none: leave merge out");
  }
  if (params.merge == Merge::kNmm && family.extra != HeadExtra::kNone) {
    FailArgument("merge is nmm, which unites plain boxes only, with head ", family.name,
                 ": give merge=nms");
  }
  if (family.extra == HeadExtra::kAngle && params.merge_metric == MergeMetric::kIos) {
    FailArgument("merge_metric is ios with head ", family.name, ": give merge_metric=iou");
  }
  if (HasMasks(family.family) && params.mask_resolution != MaskResolution::kSource) {
    FailArgument("merge needs masks in pixels of the whole image: give mask_resolution=source");
  }
}

void ValidateClassification(const HeadParams& head) {
  if (head.on_nan == OnNan::kDrop) {
    FailArgument(
        "on_nan is drop with head classification, which has no anchors to drop: give error");
  }
  if (head.ResolvedTopK() > head.num_classes) {
    FailArgument("top_k is ", head.ResolvedTopK(), " with num_classes ", head.num_classes,
                 ": give at most num_classes");
  }
  if (head.ResolvedMultiLabel() && head.ResolvedActivation() == Activation::kSoftmax) {
    FailArgument(
        "multi_label is true with head classification and activation softmax, whose scores "
        "compete: give activation=sigmoid, or none where the network has applied it");
  }
  if (!head.score_thresholds.empty() && !head.ResolvedMultiLabel()) {
    FailArgument(
        "score_thresholds has no effect with head classification without multi_label: give "
        "multi_label=true, or leave score_thresholds out");
  }
}

void ValidateSemantic(const PostprocessParams& params) {
  RequireRange("num_classes with head semantic", params.head.num_classes, 1, kMaxMapClasses);
  RequireRange("ignore_label", params.ignore_label, 0, kMaxMapClasses - 1);
  if (std::ranges::find(params.head.classes, params.ignore_label) != params.head.classes.end()) {
    FailArgument("ignore_label is ", params.ignore_label,
                 ", which is one of classes: pixels of other classes could not be told from it");
  }
  if (params.head.on_nan == OnNan::kDrop) {
    FailArgument("on_nan is drop with head semantic, which has no anchors to drop: give error");
  }
}

}  // namespace

PostprocessParams ParsePostprocessParams(const ParameterList& list) {
  PostprocessParams params;
  for (const auto& [name, text] : list) SetParam(Table(), "postprocess", params, name, text);
  Validate(params);
  return params;
}

std::vector<ParameterInfo> DescribePostprocessParams(const PostprocessParams& params) {
  return DescribeParams(Table(), params);
}

void Validate(const PostprocessParams& params) {
  const HeadParams& head = params.head;
  const HeadFamilyInfo& family = GetFamily(head.family);
  if (IsClassification(head.family)) ValidateClassification(head);
  if (IsSemantic(head.family)) ValidateSemantic(params);
  if (!family.allows_softmax && head.activation == Activation::kSoftmax) {
    FailArgument("activation is softmax with head ", family.name, ": give none or sigmoid");
  }
  ValidateSizes(params);
  if (family.anchors != nullptr) ValidateAnchors(head);
  if (family.extra == HeadExtra::kAngle && head.box_format == BoxFormat::kXyxy) {
    FailArgument("box_format is xyxy with head ", family.name,
                 ": rotated boxes are centres and sizes");
  }
  if (head.num_classes < 1 || head.max_candidates < 1 || params.max_detections < 1 ||
      head.ResolvedTopK() < 1) {
    FailArgument("num_classes, max_candidates, max_detections and top_k must be at least 1");
  }
  const auto in_unit = [](double value) { return value >= 0.0 && value <= 1.0; };
  if (!in_unit(head.score_threshold) || !in_unit(params.iou_threshold) ||
      !in_unit(params.merge_threshold) || !std::ranges::all_of(head.score_thresholds, in_unit)) {
    FailArgument(
        "score_threshold, score_thresholds, iou_threshold and merge_threshold must be from 0 to 1");
  }
  ValidateMerge(params);
  std::vector<float> class_limits;
  FillClassLimits(head, class_limits);
}

}  // namespace endcap
