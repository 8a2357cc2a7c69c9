#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/params.h"
#include "endcap/tensor_view.h"

namespace endcap {

enum class HeadFamily : int32_t { kYolov5, kYolov8, kEnd2End, kEfficientNms, kClassification };
enum class BoxFormat : int32_t { kFamilyDefault, kXyxy, kCxcywh };
enum class BoxUnit : int32_t { kPixel, kNormalized };  // of the model's input
enum class Activation : int32_t { kFamilyDefault, kNone, kSigmoid, kSoftmax };

// How a model's raw output is read. Which fields matter is the family's affair.
struct HeadParams {
  HeadFamily family = HeadFamily::kYolov8;
  int num_classes = 80;
  BoxFormat box_format = BoxFormat::kFamilyDefault;
  BoxUnit box_unit = BoxUnit::kPixel;
  Activation activation = Activation::kFamilyDefault;
  int input_height = 640;  // `input_size`, pixels: turns normalised boxes into pixels
  int input_width = 640;
  double score_threshold = 0.25;  // a candidate's score must be greater
  int max_candidates = 30000;     // best scores first
  bool multi_label = false;  // every class over the threshold is a candidate, not the best only
  // Classification only. Without one: 5, or num_classes where that is less.
  std::optional<int> top_k;

  int ResolvedTopK() const noexcept { return top_k.value_or(std::min(5, num_classes)); }
};

// What stands between box_decode and nms: N boxes, best score first, equal scores by lower index
// and then lower class.
struct Candidates {
  std::vector<float> boxes_xyxy;   // [N][4], pixels of the model's input
  std::vector<float> scores;       // [N]
  std::vector<int32_t> class_ids;  // [N]
  std::vector<int32_t> indices;    // [N], the anchor (or query, or row) the box came from
  bool truncated = false;          // more than max_candidates were over the threshold
  size_t size() const noexcept { return scores.size(); }
};

std::span<const std::string_view> HeadFamilyNames() noexcept;  // in the order of the enum
std::string_view HeadFamilyName(HeadFamily family) noexcept;

// Names, dtypes and shapes of the tensors that a family reads, for one image.
//   yolov5 `head` [A, 5+C]; yolov8 `head` [4+C, A]; end2end `head` [K, 6] =
//   x1,y1,x2,y2,score,class; efficient_nms `num_detections` int32 [1], `boxes` [K,4], `scores` [K],
//   `classes` int32 [K]; classification `logits` [C]
std::vector<TensorSpec> HeadInputs(const HeadParams& params);

// Whether the family's candidates still overlap and need non-maximum suppression.
bool NeedsNms(HeadFamily family) noexcept;

// Reads one image's raw outputs, in the order of HeadInputs, float32 or float16 (int32 where
// HeadInputs says so). Throws kInvalidArgument for a wrong count, shape or dtype, a NaN anywhere,
// or a candidate whose box is not finite. Every family but classification.
void BoxDecode(const HeadParams& params, const std::vector<ConstTensorView>& inputs,
               Candidates& candidates);

// One image's best classes, best first; equal scores go to the lower class.
struct ClassScores {
  std::vector<float> scores;         // [top_k]
  std::vector<int32_t> class_ids;    // [top_k]
  std::vector<float> probabilities;  // [num_classes], in class order
};

// Reads `logits` [C] of a classifier and applies the activation (softmax is the family's default).
// Throws as BoxDecode.
void Classify(const HeadParams& params, const ConstTensorView& logits, ClassScores& result);

}  // namespace endcap
