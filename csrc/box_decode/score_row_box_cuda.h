#pragma once

#include "box_decode/anchor_box.h"
#include "box_decode/candidate_keys_cuda.h"

namespace endcap {

// The box of a row of rtdetr or ssd, in the rule's format and unit.
__device__ inline BoxXyxy ReadScoreRowBox(const HeadRule& rule, const HeadImage& head,
                                          uint32_t row) {
  const AnchorRule& anchors = rule.anchors;
  const BoxXyxy box =
      ReadBoxRow(head, rule.rows.box_input, uint64_t{row} * rule.rows.box_row_length);
  if (anchors.source == AnchorSource::kNone) return box;
  BoxXyxy anchor = {};
  if (anchors.source == AnchorSource::kGrid) {
    anchor = GridAnchor(anchors, row);
  } else {
    anchor = ReadBoxRow(head, kAnchorInput, uint64_t{row} * 4);
    if (anchors.from_corners != 0) anchor = ToCentreForm(anchor);
  }
  return BoxAtAnchor(box, anchor, anchors.variances);
}

}  // namespace endcap
