#pragma once

#include <cstdint>

#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"

namespace endcap {

// The definition of yolov5, given its checked head: every row of `head`.
void AddYolov5Rows(const HeadParams& params, const HeadInput& head, DecodeScratch& scratch,
                   CandidateList& list);

// One row. Positions are those of AnchorLabel. Throws kInvalidArgument for a score that is NaN.
void AddYolov5Row(const HeadParams& params, const HeadInput& head, uint32_t anchor,
                  DecodeScratch& scratch, CandidateList& list);

void FinishYolov5(const HeadParams& params, const HeadInput& head, CandidateList& list,
                  const DecodeScratch& scratch, Candidates& candidates);

}  // namespace endcap
