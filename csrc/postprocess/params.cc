#include "common/param_table.h"
#include "endcap/postprocess.h"

namespace endcap {
namespace {

constexpr int kMaxClasses = 1000000;
constexpr int kMaxCandidates = 10000000;
constexpr int kMaxDetections = 100000;
constexpr int kMaxInputSide = 65535;

using Names = std::string_view;
constexpr Names kBoxFormats[] = {"default", "xyxy", "cxcywh"};
constexpr Names kBoxUnits[] = {"pixel", "normalized"};
constexpr Names kActivations[] = {"default", "none", "sigmoid", "softmax"};

using Params = PostprocessParams;

ParamField<Params> TopKField() {
  return {"top_k", "a whole number from 1 to num_classes",
          [](Params& p, std::string_view text) {
            p.head.top_k = static_cast<int>(ReadInteger("top_k", text, 1, kMaxClasses));
          },
          [](const Params& p) { return std::to_string(p.head.ResolvedTopK()); }};
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
      Means("every class over the threshold is a candidate, not only an anchor's best",
            BoolField<Params>("multi_label", FIELD(head.multi_label))),
      Means("boxes of different classes suppress each other",
            BoolField<Params>("class_agnostic", FIELD(class_agnostic))),
      Means("how the head gives boxes; by default cxcywh for yolov5 and yolov8, xyxy else",
            EnumField<Params>("box_format", kBoxFormats, FIELD(head.box_format))),
      Means("pixels of the model's input, or fractions of it",
            EnumField<Params>("box_unit", kBoxUnits, FIELD(head.box_unit))),
      Means("height and width of the model's input; for normalized boxes",
            SizeField<Params>("input_size", kMaxInputSide, FIELD(head.input_height),
                              FIELD(head.input_width))),
      Means("what turns raw numbers into scores; by default softmax for classification, none else",
            EnumField<Params>("activation", kActivations, FIELD(head.activation))),
      Means("classes in the answer, best first; classification only; by default 5, or num_classes "
            "where that is less",
            TopKField()),
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

void Validate(const PostprocessParams& params) {
  const HeadParams& head = params.head;
  const bool classifies = head.family == HeadFamily::kClassification;
  if (classifies && head.ResolvedTopK() > head.num_classes) {
    FailArgument("top_k is ", head.ResolvedTopK(), " with num_classes ", head.num_classes,
                 ": give at most num_classes");
  }
  if (!classifies && head.activation == Activation::kSoftmax) {
    FailArgument("activation is softmax with head ", HeadFamilyName(head.family),
                 ": give none or sigmoid");
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
