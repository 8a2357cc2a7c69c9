#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "common/host_device.h"
#include "endcap/box_decode.h"

// What sets the head families apart: one entry of a table for each, in families.cc. What else a new
// family changes: "Adding a head" in CONTRIBUTING.md.

namespace endcap {

struct DecodeScratch;  // candidate_list.h

// One image's tensors, in the order of HeadInputs.
using HeadTensors = std::span<const ConstTensorView>;

// Decodes one image on the CPU; families of one layout may share a function. `inputs` has the
// length of HeadInputs(params); the function checks shapes, dtypes and values. A simd
// implementation gives the result of the scalar one, errors included.
using DecodeFunction = void(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                            Candidates& candidates);

DecodeFunction DecodeYolov5, DecodeYolov5Simd;
DecodeFunction DecodeYolov8, DecodeYolov8Simd;        // rows below the scores are not read
DecodeFunction DecodeScoreRows, DecodeScoreRowsSimd;  // rtdetr and ssd
DecodeFunction DecodeEnd2End;                         // values behind the class are not read
DecodeFunction DecodeDetectionRows;

// How the values of a head are arranged. Kernels and the messages of their errors are chosen by it.
enum class HeadLayout : int32_t {
  kObjectnessRows,  // [A, 5+C]: box, objectness, class scores
  kAnchorColumns,   // [4+C+extra, A]: rows of boxes, of class scores, of extra values
  kScoreRows,       // rows of class scores, and rows of boxes
  kEnd2EndRows,     // [K, 6+extra]: box, score, class, extra values
  kDetectionRows,   // boxes, scores and classes in tensors of their own, maybe a number of rows
  kLogits           // [C], or of each pixel [C, height, width]
};

// A switch over the layouts that lacks one does not compile: a new layout needs its kernels.
#pragma GCC diagnostic error "-Wswitch"

// The values of each anchor beside box and scores; the family's own outputs are made of them.
enum class HeadExtra : int32_t {
  kNone,
  kMaskCoefficients,  // of the prototypes in another input
  kMaskLogits,        // a whole mask of each query, in another input
  kKeypoints,
  kAngle
};

// Where the values of an anchor lie in `head`. kAnchorColumns: one below the other; kEnd2EndRows:
// side by side. Others have no extra values.
struct AnchorValues {
  uint32_t row_length;   // of a row for each anchor; 0: anchors are columns
  uint32_t first_extra;  // among an anchor's values

  ENDCAP_HOST_DEVICE uint64_t At(uint64_t anchors, uint64_t value, uint64_t anchor) const {
    return row_length == 0 ? value * anchors + anchor : anchor * row_length + value;
  }
};

AnchorValues GetAnchorValues(const HeadParams& params) noexcept;

// Throws the error of a value of an anchor that is not finite. value: its place, as of
// AnchorValues::At.
[[noreturn]] void FailAnchorValue(const HeadParams& params, float number, uint32_t value,
                                  uint32_t anchor);

// Throws the error of a head of which on_nan kDrop leaves out more than half.
[[noreturn]] void FailDropped(int64_t dropped, int64_t rows);

// The inputs of kDetectionRows by their positions, and its classes.
struct DetectionRowsRule {
  int32_t count_input;  // -1: every row counts
  int32_t box_input;
  int32_t score_input;
  int32_t class_input;
  int32_t first_class;  // what the network calls class 0
  int32_t background;   // its id of "no object"; -1: none

  // Whether the network's class id is class 0 to num_classes - 1, or no object.
  ENDCAP_HOST_DEVICE bool HasClass(int64_t id, int32_t num_classes) const {
    return IsBackground(id) || (id >= first_class && id - first_class < num_classes);
  }
  ENDCAP_HOST_DEVICE bool IsBackground(int64_t id) const {
    return background >= 0 && id == background;
  }
};

DetectionRowsRule MakeDetectionRowsRule(const HeadParams& params) noexcept;

// What a candidate's score must be greater than, for each class: infinity for a class that is left
// out. Empty without `classes` and `score_thresholds`: score_threshold for every class. Throws
// kInvalidArgument where these do not fit num_classes.
void FillClassLimits(const HeadParams& params, std::vector<float>& limits);

// The least of these limits, for scans that do not look at the class.
float LowestLimit(const HeadParams& params, std::span<const float> limits) noexcept;

// HeadInputs that own no memory.
struct HeadSpecs {
  std::array<TensorSpec, 4> specs;
  size_t count;
};

// The anchors that a head's boxes are relative to.
struct AnchorSettings {
  AnchorSource source = AnchorSource::kNone;
  const std::vector<AnchorLevel>* grid = nullptr;  // never null where a family has anchors
  double offset = 0.0;                             // of a centre in its cell, see AnchorLevel
  std::array<double, 4> variances = {};
  double max_log_size = 0.0;  // the logarithm of a box's size over its anchor's is cut off here
};

// Defaults are those of most families.
struct HeadFamilyInfo {
  HeadFamily family;
  std::string_view name;
  HeadLayout layout;
  HeadSpecs (*specs)(const HeadParams& params) noexcept;  // without the input of masks
  // The tensor and its axis that give the number of anchors, queries, rows or classes.
  size_t rows_input = 0;
  size_t rows_axis = 0;
  // Null for kLogits, which has no boxes. A head of some hundred rows has one
  // implementation.
  DecodeFunction* scalar = nullptr;
  DecodeFunction* simd = nullptr;
  bool needs_nms = false;
  bool per_pixel = false;  // kLogits
  HeadExtra extra = HeadExtra::kNone;
  // The resolved values of kFamilyDefault and of an absent multi_label.
  BoxFormat box_format = BoxFormat::kXyxy;
  BoxUnit box_unit = BoxUnit::kPixel;
  Background background = Background::kNone;
  bool multi_label = false;
  Activation (*activation)(const HeadParams& params) noexcept = nullptr;  // null: kNone
  bool allows_softmax = false;
  AnchorSettings (*anchors)(const HeadParams& params) noexcept = nullptr;  // null: kNone
};

const HeadFamilyInfo& GetFamily(HeadFamily family) noexcept;

inline bool HasAngles(const HeadParams& head) noexcept {
  return GetFamily(head.family).extra == HeadExtra::kAngle;
}

HeadSpecs MakeHeadSpecs(const HeadParams& params) noexcept;

// Throws kInvalidArgument when the inputs of kScoreRows or kDetectionRows, whose ranks are checked,
// differ in their rows.
void CheckRowCounts(const HeadParams& params, HeadTensors inputs);

inline bool HasMasks(HeadFamily family) noexcept {
  const HeadExtra extra = GetFamily(family).extra;
  return extra == HeadExtra::kMaskCoefficients || extra == HeadExtra::kMaskLogits;
}

// The input with the prototypes or the logits of a family that HasMasks: the last.
inline size_t MaskInput(const HeadParams& params) noexcept {
  return MakeHeadSpecs(params).count - 1;
}

// The parameters' and the family's anchors. Of kNone only the source counts.
AnchorSettings ResolveAnchors(const HeadParams& params) noexcept;

// Scores in a row: the classes, and the background where there is one.
int ScoreColumns(const HeadParams& params) noexcept;

}  // namespace endcap
