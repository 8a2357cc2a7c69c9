#include "common/param_table.h"
#include "endcap/postprocess.h"
#include "postprocess/anchor_grid_text.h"
#include "postprocess/param_limits.h"

namespace endcap {
namespace {

constexpr int kMaxClasses = 1000000;
constexpr int kMaxCandidates = 10000000;
constexpr int kMaxDetections = 100000;
constexpr double kMaxVariance = 1e6;

using Names = std::string_view;
constexpr Names kBoxFormats[] = {"default", "xyxy", "cxcywh"};
constexpr Names kBoxUnits[] = {"default", "pixel", "normalized"};
constexpr Names kActivations[] = {"default", "none", "sigmoid", "softmax"};
constexpr Names kBackgrounds[] = {"default", "none", "first", "last"};
constexpr Names kMaskResolutions[] = {"prototype", "input", "source"};
constexpr Names kAnchorSources[] = {"input", "grid", "none"};

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
          [](const Params& p) {
            std::string text;
            for (const double number : p.head.variances) {
              text += (text.empty() ? "" : ",") + WriteNumber(number);
            }
            return text;
          }};
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
      Means("a box is suppressed when its IoU with a kept box is greater",
            NumberField<Params>("iou_threshold", 0.0, 1.0, FIELD(iou_threshold))),
      Means("candidates that go into suppression, best scores first; a cut is reported",
            IntegerField<Params>("max_candidates", 1, kMaxCandidates, FIELD(head.max_candidates))),
      Means("rows of the outputs",
            IntegerField<Params>("max_detections", 1, kMaxDetections, FIELD(max_detections))),
      Means("every class over the threshold is a candidate, not only an anchor's best; for "
            "classification, the answer holds only classes over the threshold; by default true for "
            "rtdetr and ssd, false else",
            MultiLabelField()),
      Means("boxes of different classes suppress each other",
            BoolField<Params>("class_agnostic", FIELD(class_agnostic))),
      Means(
          "how the head gives boxes, and ssd its anchors; by default cxcywh for the yolo families "
          "and rtdetr, xyxy else",
          EnumField<Params>("box_format", kBoxFormats, FIELD(head.box_format))),
      Means("pixels of the model's input, or fractions of it; by default normalized for rtdetr, "
            "pixel else",
            EnumField<Params>("box_unit", kBoxUnits, FIELD(head.box_unit))),
      Means("height and width of the model's input; for normalized boxes, anchor_grid and masks",
            SizeField<Params>("input_size", kMaxInputSide, FIELD(head.input_height),
                              FIELD(head.input_width))),
      Means(
          "what turns raw numbers into scores; by default softmax for classification and for ssd "
          "with a background, sigmoid for ssd without one and for rtdetr that is not joined, none "
          "else",
          EnumField<Params>("activation", kActivations, FIELD(head.activation))),
      Means("classes in the answer, best first, with multi_label at most; classification only; by "
            "default 5, or num_classes where that is less",
            TopKField()),
      Means("rtdetr's boxes and scores are one tensor, head",
            BoolField<Params>("joined", FIELD(head.joined))),
      Means("where a row of scores has one more, for no object, which num_classes does not count; "
            "rtdetr and ssd; by default first for ssd, none else",
            EnumField<Params>("background", kBackgrounds, FIELD(head.background))),
      Means("where ssd's anchors come from: a tensor, anchor_grid, or none, since the boxes are "
            "decoded already",
            EnumField<Params>("anchors", kAnchorSources, FIELD(head.anchors))),
      Means("the anchors of every level: cell by cell, in a cell size by size", AnchorGridField()),
      Means("where in its cell an anchor's centre is, in cells",
            NumberField<Params>("anchor_offset", 0.0, 1.0, FIELD(head.anchor_offset))),
      Means("what ssd's offsets are multiplied by before they move an anchor", VariancesField()),
      Means(
          "how yolov8_obb's boxes are compared: exact IoU, probabilistic IoU, or the latter where "
          "also suppressed boxes suppress",
          EnumField<Params>("rotated_nms", RotatedNmsNames(), FIELD(rotated_nms))),
      Means("numbers for each anchor that weigh yolov8_seg's prototypes",
            IntegerField<Params>("mask_coefficients", 1, kMaxExtraValues,
                                 FIELD(head.mask_coefficients))),
      Means("height and width of yolov8_seg's prototypes",
            SizeField<Params>("prototype_size", kMaxInputSide, FIELD(head.prototype_height),
                              FIELD(head.prototype_width))),
      Means("pixels of the masks: the prototypes', the model's input's, or the source image's",
            EnumField<Params>("mask_resolution", kMaskResolutions, FIELD(mask_resolution))),
      Means("keypoints of yolov8_pose",
            IntegerField<Params>("num_keypoints", 1, kMaxExtraValues, FIELD(head.num_keypoints))),
      Means("numbers for each keypoint: x and y, or x, y and visibility",
            IntegerField<Params>("keypoint_values", 2, 3, FIELD(head.keypoint_values))),
  };
  return table;
}
#undef FIELD

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

}  // namespace endcap
