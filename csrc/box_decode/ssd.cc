#include "box_decode/anchors.h"
#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score_rows.h"

namespace endcap {
namespace {

// `boxes` [A, 4], `scores` [A, C with the background] and, as an input, `anchors` [A, 4]: SSD
// (arXiv 1512.02325), RetinaNet (arXiv 1708.02002) and others of their kind.
void DecodeAnchors(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                   Candidates& candidates, Implementation implementation) {
  const HeadSpecs head = MakeHeadSpecs(params);
  const auto& specs = head.specs;
  const AnchorSettings settings = ResolveAnchors(params);
  const bool has_anchors = settings.source == AnchorSource::kInput;
  const HeadInput boxes(specs[0], inputs[0], scratch.head, implementation);
  const HeadInput scores(specs[1], inputs[1], scratch.scores, implementation);
  // Where they are no input, the boxes take their place in checks that are the same for all.
  const size_t anchors_at = has_anchors ? 2 : 0;
  const HeadInput anchors(specs[anchors_at], inputs[anchors_at], scratch.anchors, implementation);
  CheckRowCounts(head, inputs);
  CandidateList list(params, inputs, scratch);
  AddScoreRows(params, ScoreRows(params, scores, 0), implementation, {&boxes, &anchors}, scratch,
               list);
  const bool from_corners = params.ResolvedBoxFormat() == BoxFormat::kXyxy;
  const auto label = [&](uint32_t position) { return AnchorLabel(params, scratch, position); };
  const auto read_box = [&](int32_t a) {
    const BoxXyxy box = boxes.Box(a);
    switch (settings.source) {
      case AnchorSource::kInput: {
        const BoxXyxy anchor = anchors.Box(a);
        return BoxAtAnchor(box, from_corners ? ToCentreForm(anchor) : anchor, settings);
      }
      case AnchorSource::kGrid:
        return BoxAtAnchor(box, AnchorAt(params, settings, a), settings);
      case AnchorSource::kNone:
        break;
    }
    return box;
  };
  const bool at_anchors = settings.source != AnchorSource::kNone;
  list.Finish(boxes.rows(), at_anchors ? BoxFormat::kCxcywh : params.ResolvedBoxFormat(), label,
              read_box, candidates);
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
