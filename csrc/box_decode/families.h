#pragma once

#include <array>
#include <span>

#include "endcap/box_decode.h"

namespace endcap {

struct DecodeScratch;  // candidate_list.h

// One function per head family; each stands in a file of its name, the simd implementation beside
// it. `inputs` has the length of HeadInputs(params); shapes, dtypes and values are checked by the
// function. A simd implementation gives what the scalar one gives, errors included.
using HeadTensors = std::span<const ConstTensorView>;
using DecodeFunction = void(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                            Candidates& candidates);

DecodeFunction DecodeYolov5, DecodeYolov5Simd;
// Also yolov8_seg, yolov8_pose and yolov8_obb, whose further rows are not read.
DecodeFunction DecodeYolov8, DecodeYolov8Simd;
DecodeFunction DecodeRtdetr, DecodeRtdetrSimd;
DecodeFunction DecodeSsd, DecodeSsdSimd;
// These two have some hundred rows, and one path.
DecodeFunction DecodeEnd2End, DecodeEfficientNms;

// yolov8 and the families with more rows below the scores.
bool HasYolov8Columns(HeadFamily family) noexcept;

// The family whose candidates are the same: yolov8 for those with more rows below the scores.
inline HeadFamily PlainFamily(HeadFamily family) noexcept {
  return HasYolov8Columns(family) ? HeadFamily::kYolov8 : family;
}

// Scores in a row: the classes, and the background where there is one.
int ScoreColumns(const HeadParams& params) noexcept;

// HeadInputs without memory of its own.
struct HeadSpecs {
  std::array<TensorSpec, 4> specs;
  size_t count;
};
HeadSpecs MakeHeadSpecs(const HeadParams& params) noexcept;

}  // namespace endcap
