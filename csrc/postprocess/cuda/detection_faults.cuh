#pragma once

#include <cuda_runtime.h>

#include "box_decode/cuda/candidate_keys.cuh"
#include "box_decode/score.h"
#include "postprocess/cuda/detection_launch.h"

// Finds what is wrong with an image, in the order in which the CPU implementation would meet it.
// For one thread of a block.

namespace endcap {

__device__ inline DetectionRecord Fault(DetectionFault fault, uint32_t element = 0,
                                        double value = 0.0, double second = 0.0) {
  return {fault, 0, element, 0, 0, 0, 0, 0, {value, second}};
}

__device__ inline bool HasGeometry(const DetectionImage& image) {
  return image.geometry != nullptr || image.has_values != 0;
}

__device__ inline float ReadGeometry(const DetectionImage& image, uint32_t i) {
  return image.geometry != nullptr ? AssumeGlobal(image.geometry)[i] : image.values[i];
}
__device__ inline Geometry ReadGeometry(const DetectionImage& image) {
  const auto at = [&](uint32_t i) { return ReadGeometry(image, i); };
  return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)};
}

__device__ inline DetectionRecord GeometryFault(const DetectionImage& image) {
  if (!HasGeometry(image)) return Fault(DetectionFault::kNone);
  for (uint32_t i = 0; i < Geometry::kSize; ++i) {
    if (!IsFinite(ReadGeometry(image, i))) return Fault(DetectionFault::kGeometryNotFinite, i);
  }
  const Geometry geometry = ReadGeometry(image);
  if (geometry.scale_x <= 0.0F || geometry.scale_y <= 0.0F) {
    return Fault(DetectionFault::kGeometryScale, 0, geometry.scale_x, geometry.scale_y);
  }
  if (geometry.image_w < 0.0F || geometry.image_h < 0.0F) {
    return Fault(DetectionFault::kGeometryImage, 0, geometry.image_w, geometry.image_h);
  }
  return Fault(DetectionFault::kNone);
}

// Masks of the source image.
__device__ inline DetectionRecord MaskSideFault(const DetectionImage& image) {
  if (!HasGeometry(image)) return Fault(DetectionFault::kNone);
  const Geometry geometry = ReadGeometry(image);
  if (!IsMaskSide(geometry.image_w)) return Fault(DetectionFault::kMaskSide, 0, geometry.image_w);
  if (IsMaskSide(geometry.image_h)) return Fault(DetectionFault::kNone);
  return Fault(DetectionFault::kMaskSide, 0, geometry.image_h, 1.0);
}

// A row of scores whose greatest is not finite, and which holds no NaN.
__device__ inline float FindBadRowHighest(const HeadRule& rule, const HeadImage& head,
                                          uint32_t row) {
  const ScoreRowRule& rows = rule.rows;
  const uint64_t first = uint64_t{row} * rows.score_row_length + rows.first_score;
  for (uint32_t i = 0; i < rows.columns; ++i) {
    if (ReadValue(head, rows.score_input, first + i) > 0.0F) return INFINITY;
  }
  return -INFINITY;
}

__device__ inline DetectionRecord BadRowFault(const HeadRule& rule, const HeadImage& head,
                                              uint32_t row) {
  switch (rule.layout) {
    case HeadLayout::kObjectnessRows:
    case HeadLayout::kAnchorColumns:  // never: a score is a value of the head
      return Fault(DetectionFault::kScoreNan, row);
    case HeadLayout::kScoreRows:
      return Fault(DetectionFault::kRowHighestNotFinite, row, FindBadRowHighest(rule, head, row));
    case HeadLayout::kEnd2EndRows:
      return Fault(DetectionFault::kUnknownClass, row,
                   ReadValue(head, 0, rule.values.At(head.rows, 5, row)));
    case HeadLayout::kDetectionRows:
      return Fault(DetectionFault::kUnknownClass, row,
                   static_cast<double>(ReadInteger(head, rule.detection_rows.class_input, row)));
    case HeadLayout::kLogits:
      break;
  }
  if (rule.activation == Activation::kSoftmax) {
    return Fault(DetectionFault::kHighestNotFinite, 0, row == kHighestInf ? INFINITY : -INFINITY);
  }
  const float score = ActivateScore(rule.activation, ReadValue(head, 0, row));
  return Fault(DetectionFault::kClassScoreNotFinite, row, score);
}

// Everything but candidates that are not finite.
__device__ inline DetectionRecord ValueFault(const HeadRule& rule, const HeadImage& head,
                                             const CandidateState& state) {
  const auto given = [&] {
    return static_cast<double>(*static_cast<const int32_t*>(head.inputs[0]));
  };
  if (state.bad_count == 1) return Fault(DetectionFault::kNegativeCount, 0, given());
  const int first_input = rule.layout == HeadLayout::kScoreRows ? rule.rows.score_input : 0;
  for (int i = 0; i < 4; ++i) {
    const int input = i == 0 ? first_input : (i == first_input ? 0 : i);
    if (state.nan[input] == 0) continue;
    DetectionRecord record = Fault(DetectionFault::kNan, ~state.nan[input]);
    record.input = input;
    return record;
  }
  if (state.bad_count == 2) {
    return Fault(DetectionFault::kCountBeyondRows, 0, given(), head.rows);
  }
  if (state.bad_row != 0) return BadRowFault(rule, head, ~state.bad_row);
  const bool has_count =
      rule.layout == HeadLayout::kDetectionRows && rule.detection_rows.count_input >= 0;
  const double rows = has_count && state.dropped != 0 ? given() : head.rows;
  if (2.0 * state.dropped > rows) {
    return Fault(DetectionFault::kTooManyDropped, 0, state.dropped, rows);
  }
  return Fault(DetectionFault::kNone);
}

}  // namespace endcap
