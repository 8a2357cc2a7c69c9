#include "box_decode/anchors.h"
#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score_rows.h"

namespace endcap {
namespace {

// Candidates' boxes at anchors that `anchor_at` gives as centre, width and height.
template <typename AnchorAtIndex>
void FinishAtAnchors(const HeadParams& params, const HeadInput& boxes, AnchorAtIndex anchor_at,
                     const DecodeScratch& scratch, CandidateList& list, Candidates& candidates) {
  const auto label = [&](uint32_t position) { return AnchorLabel(params, scratch, position); };
  const auto read_box = [&](int32_t a) {
    return BoxAtAnchor(boxes.Box(a), anchor_at(a), params.variances.data());
  };
  list.Finish(BoxFormat::kCxcywh, label, read_box, candidates);
}

// `boxes` [A, 4], `scores` [A, C with the background] and, as an input, `anchors` [A, 4]: SSD
// (arXiv 1512.02325), RetinaNet (arXiv 1708.02002) and others of their kind.
void DecodeAnchors(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                   Candidates& candidates, Implementation implementation) {
  const auto specs = MakeHeadSpecs(params).specs;
  const bool has_anchors = params.anchors == AnchorSource::kInput;
  const HeadInput boxes(specs[0], inputs[0], scratch.head, implementation);
  const HeadInput scores(specs[1], inputs[1], scratch.scores, implementation);
  // Where they are no input, the boxes take their place in checks that are the same for all.
  const size_t anchors_at = has_anchors ? 2 : 0;
  const HeadInput anchors(specs[anchors_at], inputs[anchors_at], scratch.anchors, implementation);
  CheckRowCounts(params, inputs);
  CandidateList list(params, scratch);
  AddScoreRows(params, ScoreRows(params, scores, 0), implementation, {&boxes, &anchors}, scratch,
               list);
  if (params.anchors == AnchorSource::kNone) {
    const auto label = [&](uint32_t position) { return AnchorLabel(params, scratch, position); };
    const auto read_box = [&](int32_t a) { return boxes.Box(a); };
    list.Finish(params.ResolvedBoxFormat(), label, read_box, candidates);
  } else if (has_anchors) {
    const bool from_corners = params.ResolvedBoxFormat() == BoxFormat::kXyxy;
    const auto anchor_at = [&](int32_t a) {
      return from_corners ? ToCentreForm(anchors.Box(a)) : anchors.Box(a);
    };
    FinishAtAnchors(params, boxes, anchor_at, scratch, list, candidates);
  } else {
    const auto anchor_at = [&](int32_t a) { return AnchorAt(params, a); };
    FinishAtAnchors(params, boxes, anchor_at, scratch, list, candidates);
  }
}

}  // namespace

void DecodeSsd(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
               Candidates& candidates) {
  DecodeAnchors(params, inputs, scratch, candidates, Implementation::kScalar);
}

void DecodeSsdSimd(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                   Candidates& candidates) {
  DecodeAnchors(params, inputs, scratch, candidates, Implementation::kSimd);
}

}  // namespace endcap
