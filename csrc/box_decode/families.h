#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "endcap/box_decode.h"

// What sets the head families apart: one entry of a table for each, in families.cc.

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
DecodeFunction DecodeYolov8, DecodeYolov8Simd;  // rows below the scores are not read
DecodeFunction DecodeRtdetr, DecodeRtdetrSimd;
DecodeFunction DecodeSsd, DecodeSsdSimd;
DecodeFunction DecodeEnd2End, DecodeEfficientNms;

// How the values of a head are arranged. Kernels and the messages of their errors are chosen by it.
enum class HeadLayout : int32_t {
  kObjectnessRows,  // [A, 5+C]: box, objectness, class scores
  kAnchorColumns,   // [4+C+extra, A]: rows of boxes, of class scores, of extra values
  kScoreRows,       // rows of class scores, and rows of boxes
  kEnd2EndRows,     // [K, 6]: box, score, class
  kEfficientNms,    // number of rows; boxes, scores and classes
  kLogits           // [C]
};

// A switch over the layouts that lacks one does not compile: a new layout needs its kernels.
#pragma GCC diagnostic error "-Wswitch"

// The values of each anchor beside box and scores; the family's own outputs are made of them.
enum class HeadExtra : int32_t { kNone, kMaskCoefficients, kKeypoints, kAngle };

// HeadInputs without memory of its own.
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
  HeadSpecs (*specs)(const HeadParams& params) noexcept;
  // The tensor and its axis that give the number of anchors, queries, rows or classes.
  size_t rows_input = 0;
  size_t rows_axis = 0;
  // Null for classification, which has no boxes. A head of some hundred rows has one
  // implementation.
  DecodeFunction* scalar = nullptr;
  DecodeFunction* simd = nullptr;
  bool needs_nms = false;
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

inline HeadSpecs MakeHeadSpecs(const HeadParams& params) noexcept {
  return GetFamily(params.family).specs(params);
}

// The parameters' and the family's anchors. Of kNone only the source counts.
AnchorSettings ResolveAnchors(const HeadParams& params) noexcept;

// Scores in a row: the classes, and the background where there is one.
int ScoreColumns(const HeadParams& params) noexcept;

}  // namespace endcap
