#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/params.h"
#include "endcap/tensor_view.h"

namespace endcap {

enum class HeadFamily : int32_t {
  kYolov5,
  kYolox,
  kYolov8,
  kYolov8Seg,
  kYolov8Pose,
  kYolov8Obb,
  kEnd2End,
  kEnd2EndSeg,
  kEnd2EndPose,
  kEnd2EndObb,
  kRtdetr,
  kRtdetrSeg,
  kSsd,
  kEfficientNms,
  kDetections,
  kClassification,
  kSemantic
};
inline constexpr size_t kHeadFamilyCount = static_cast<size_t>(HeadFamily::kSemantic) + 1;

enum class BoxFormat : int32_t { kFamilyDefault, kXyxy, kCxcywh };
enum class BoxUnit : int32_t { kFamilyDefault, kPixel, kNormalized };  // of the model's input
enum class Activation : int32_t { kFamilyDefault, kNone, kSigmoid, kSoftmax };
// Whether a row of scores has one more, for "no object", and where.
enum class Background : int32_t { kFamilyDefault, kNone, kFirst, kLast };
// Where ssd's anchors come from; kNone: its boxes are decoded already.
enum class AnchorSource : int32_t { kInput, kGrid, kNone };

// What a number of a head that is NaN or infinite does: BoxDecode says which ones count.
enum class OnNan : int32_t { kError, kDrop };

// One level of a grid of anchors: at every `stride` pixels of the model's input (ceil(input /
// stride) cells each way, row by row) boxes of these widths and heights in pixels, in their order,
// centred at (cell + anchor_offset) * stride.
struct AnchorLevel {
  double stride = 0.0;
  std::vector<std::array<double, 2>> sizes;
};

// How a model's raw output is read. Which fields matter is the family's affair. Python,
// config.pbtxt, the command line and the documentation have these defaults by
// postprocess/params.cc.
struct HeadParams {
  HeadFamily family = HeadFamily::kYolov8;
  int num_classes = 80;
  BoxFormat box_format = BoxFormat::kFamilyDefault;
  BoxUnit box_unit = BoxUnit::kFamilyDefault;
  Activation activation = Activation::kFamilyDefault;
  int input_height = 640;  // `input_size`, pixels: turns normalised boxes into pixels
  int input_width = 640;
  double score_threshold = 0.25;  // a candidate's score must be greater
  // The only classes of the result, from 0 to num_classes - 1; empty: all. The others are left out
  // before max_candidates and suppression. Without multi_label an anchor's best class counts, as in
  // Ultralytics' non_max_suppression: if it is left out, the anchor gives no candidate, whatever
  // its other classes score. Classification: the best top_k of these classes are returned.
  std::vector<int> classes;
  // score_threshold for each class, num_classes numbers; empty: score_threshold for all. An
  // anchor's best class is chosen by scores alone. Classification: with multi_label only.
  std::vector<double> score_thresholds;
  int max_candidates = 30000;  // best scores first
  // Every class over the threshold is a candidate, not only the best. Unset: true for rtdetr,
  // rtdetr_seg and ssd, else false. Classification: true returns only classes over the threshold,
  // which is otherwise unused.
  std::optional<bool> multi_label;
  // Classification only. Unset: 5, or num_classes where that is less.
  std::optional<int> top_k;
  OnNan on_nan = OnNan::kError;  // classification: kError only

  // rtdetr and rtdetr_seg: scores and boxes are one tensor, `head`.
  bool joined = false;
  // rtdetr, rtdetr_seg, ssd, efficient_nms and detections: num_classes does not count it.
  Background background = Background::kFamilyDefault;
  // ssd only; anchor_grid of yolox too, where none is strides 8, 16 and 32.
  AnchorSource anchors = AnchorSource::kInput;
  std::vector<AnchorLevel> anchor_grid;
  double anchor_offset = 0.5;
  std::array<double, 4> variances = {0.1, 0.1, 0.2, 0.2};  // of the centre's x, y, width and height

  int mask_coefficients = 32;  // yolov8_seg and end2end_seg: M
  int prototype_height = 160;  // of these, and of rtdetr_seg's masks: `prototype_size`
  int prototype_width = 160;
  bool class_map = false;   // semantic: the network gives class ids, not logits
  int num_keypoints = 17;   // yolov8_pose and end2end_pose: P
  int keypoint_values = 3;  // x and y, or x, y and visibility

  // The fields with the family's defaults filled in.
  BoxFormat ResolvedBoxFormat() const noexcept;
  BoxUnit ResolvedBoxUnit() const noexcept;
  Activation ResolvedActivation() const noexcept;
  Background ResolvedBackground() const noexcept;
  bool ResolvedMultiLabel() const noexcept;
  int ResolvedTopK() const noexcept { return top_k.value_or(std::min(5, num_classes)); }
};

// The result of box_decode and the input of nms: N boxes, best score first, equal scores by lower
// index and then lower class.
struct Candidates {
  std::vector<float> boxes_xyxy;   // [N][4], pixels of the model's input
  std::vector<float> scores;       // [N]
  std::vector<int32_t> class_ids;  // [N]
  std::vector<int32_t> indices;    // [N], the anchor (or query, or row) the box came from
  bool truncated = false;          // more than max_candidates were over the threshold
  int dropped = 0;                 // anchors (queries, rows) that on_nan kDrop left out
  size_t size() const noexcept { return scores.size(); }
};

std::span<const std::string_view> HeadFamilyNames() noexcept;  // in the order of the enum
std::string_view HeadFamilyName(HeadFamily family) noexcept;

// Names, dtypes and shapes of the tensors that a family reads, for one image.
//   yolov5 and yolox `head` [A, 5+C]; yolov8 `head` [4+C, A]; yolov8_seg `head` [4+C+M, A] and
//   `protos` [M, height, width]; yolov8_pose `head` [4+C+P*values, A]; yolov8_obb `head` [4+C+1,
//   A]; end2end `head` [K, 6] = x1,y1,x2,y2,score,class; end2end_seg `head` [K, 6+M] and `protos`;
//   end2end_pose `head` [K, 6+P*values]; end2end_obb `head` [K, 7] = cx,cy,w,h,score,class,angle;
//   rtdetr `logits` [Q, C] and `boxes` [Q, 4], or joined `head` [Q, 4+C]; rtdetr_seg these and
//   `masks` [Q, height, width]; ssd `boxes` [A, 4], `scores` [A, C] and, where they are an input,
//   `anchors` [A, 4] (C with the background, where there is one); efficient_nms `num_detections`
//   int32 [1], `boxes` [K, 4], `scores` [K], `classes` int32 [K]; detections the last three of
//   these; classification `logits` [C]; semantic `logits` [C, height, width], or with class_map
//   `class_map` uint8 [height, width], where height and width are any
std::vector<TensorSpec> HeadInputs(const HeadParams& params);

// Whether the family's candidates still overlap and need non-maximum suppression.
bool NeedsNms(HeadFamily family) noexcept;

// Whether the head has scores of classes and no boxes: Classify reads it, not BoxDecode.
bool IsClassification(HeadFamily family) noexcept;

// Whether the head has scores or ids of classes for each pixel, and no boxes.
bool IsSemantic(HeadFamily family) noexcept;

// The other dtypes in which an input of HeadInputs is read: float16 for float32, int64 for classes,
// int32 and int64 for class_map.
std::span<const DType> OtherDTypes(const TensorSpec& spec) noexcept;

// Reads one image's raw outputs, in the order of HeadInputs, each in its dtype or in one of
// OtherDTypes. Throws kInvalidArgument for a wrong count, shape or dtype, and, with on_nan kError,
// for a NaN in boxes or scores, a row whose softmax is not defined, or a candidate whose box or
// score is not finite. An infinite number that leads to none of these, such as a logit of a
// sigmoid, is not an error. Every family but classification and semantic.
//
// With on_nan kDrop such an anchor (query, row) is left out with all of its classes, before the cut
// at max_candidates, and counted. So is one over the threshold that has an extra value (mask
// coefficient, keypoint, angle) that is not finite, whether the value is wanted or not. If more
// than half of the head's anchors are left out, over the threshold or not (of efficient_nms: of
// num_detections), the head as a whole is not to be trusted: throws kInvalidArgument.
void BoxDecode(const HeadParams& params, const std::vector<ConstTensorView>& inputs,
               Candidates& candidates);

// How many numbers beside box and scores the family's head has for each anchor: coefficients of
// masks, keypoints, an angle; 0 for the others, also for rtdetr_seg, whose masks are not read here.
int ExtraValues(const HeadParams& params) noexcept;

// Reads those numbers for the anchors `indices` only: values [N][ExtraValues]. Throws
// kInvalidArgument, naming the anchor, for one that is not finite. `inputs` have gone through
// BoxDecode.
void ReadExtras(const HeadParams& params, const std::vector<ConstTensorView>& inputs,
                std::span<const int32_t> indices, std::vector<float>& values);

// Heads with angles: the rotated boxes of the anchors `indices`, boxes_xywhr [N][5] as NmsRotated
// takes them, in pixels of the model's input. Throws as ReadExtras.
void ReadRotatedBoxes(const HeadParams& params, const std::vector<ConstTensorView>& inputs,
                      std::span<const int32_t> indices, std::vector<float>& boxes_xywhr);

// One image's best classes, best first; equal scores go to the lower class. N is top_k, or with
// multi_label the number of classes whose score is greater than score_threshold, at most top_k;
// fewer where `classes` has fewer.
struct ClassScores {
  std::vector<float> scores;         // [N]
  std::vector<int32_t> class_ids;    // [N]
  std::vector<float> probabilities;  // [num_classes], in class order
};

// Reads `logits` [C] of a classifier and applies the activation (softmax is the family's default).
// Throws as BoxDecode.
void Classify(const HeadParams& params, const ConstTensorView& logits, ClassScores& result);

}  // namespace endcap
