#pragma once

#include "box_decode/anchors.h"
#include "box_decode/cuda/candidate_keys.cuh"

namespace endcap {

// The four numbers of a row's box in the rule's format and unit: with its anchor where the head has
// anchors, else as they are.
__device__ inline BoxXyxy ApplyAnchor(const HeadRule& rule, const HeadImage& head,
                                      const BoxXyxy& box, uint32_t row) {
  const AnchorRule& anchors = rule.anchors;
  if (anchors.source == AnchorSource::kNone) return box;
  BoxXyxy anchor = {};
  if (anchors.source == AnchorSource::kGrid) {
    anchor = GridAnchor(anchors, row);
  } else {
    anchor = ReadBoxRow(head, kAnchorInput, uint64_t{row} * 4);
    if (anchors.from_corners != 0) anchor = ToCentreForm(anchor);
  }
  return BoxAtAnchor(box, anchor, anchors.variances, anchors.max_log_size);
}

// The candidate of a key of a HeadBatch.
struct Candidate {
  BoxXyxy box;  // pixels of the model's input
  float score;
  int32_t class_id;
  int32_t index;
};

// Families with boxes.
__device__ inline Candidate ReadCandidate(const HeadRule& rule, const HeadImage& head,
                                          uint64_t key) {
  const uint32_t position = KeyPosition(key);
  const auto num_classes = static_cast<uint32_t>(rule.num_classes);
  const uint32_t index = PositionHoldsClass(rule.layout) ? position / num_classes : position;
  auto class_id = static_cast<int32_t>(position % num_classes);
  BoxXyxy raw = {};
  switch (rule.layout) {
    case HeadLayout::kAnchorColumns:
      raw = {ReadValue(head, 0, index), ReadValue(head, 0, uint64_t{head.rows} + index),
             ReadValue(head, 0, uint64_t{head.rows} * 2 + index),
             ReadValue(head, 0, uint64_t{head.rows} * 3 + index)};
      break;
    case HeadLayout::kObjectnessRows:
      raw = ReadBoxRow(head, 0, uint64_t{index} * (5 + num_classes));
      break;
    case HeadLayout::kEnd2EndRows:
      raw = ReadBoxRow(head, 0, rule.values.At(head.rows, 0, index));
      class_id = static_cast<int32_t>(ReadValue(head, 0, rule.values.At(head.rows, 5, index)));
      break;
    case HeadLayout::kScoreRows:
      raw = ReadBoxRow(head, rule.rows.box_input, uint64_t{index} * rule.rows.box_row_length);
      break;
    case HeadLayout::kDetectionRows: {
      const DetectionRowsRule& rows = rule.detection_rows;
      raw = ReadBoxRow(head, rows.box_input, uint64_t{index} * 4);
      class_id =
          static_cast<int32_t>(ReadInteger(head, rows.class_input, index) - rows.first_class);
      break;
    }
    case HeadLayout::kLogits:
      break;  // has no boxes
  }
  return {ToPixels(rule, ApplyAnchor(rule, head, raw, index)), KeyScore(key), class_id,
          static_cast<int32_t>(index)};
}

}  // namespace endcap
