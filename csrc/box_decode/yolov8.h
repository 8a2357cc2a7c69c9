#pragma once

#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"

namespace endcap {

// What both implementations of yolov8 do when the scores have been read. Positions are those of
// AnchorLabel.
inline void FinishYolov8(const HeadParams& params, const HeadInput& head, CandidateList& list,
                         const DecodeScratch& scratch, Candidates& candidates) {
  const auto read_box = [&](int32_t a) {
    return BoxXyxy{head.row(0)[a], head.row(1)[a], head.row(2)[a], head.row(3)[a]};
  };
  const auto label = [&](uint32_t position) { return AnchorLabel(params, scratch, position); };
  list.Finish(params.ResolvedBoxFormat(), label, read_box, candidates);
}

}  // namespace endcap
