#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score_rows.h"

namespace endcap {
namespace {

// `logits` [Q, C] and `boxes` [Q, 4], or joined `head` [Q, 4+C]. Every query's classes are
// candidates, as in RT-DETR's own post-processing (arXiv 2304.08069), and nothing is suppressed.
// rtdetr_seg has a third input, of which only the rows are counted here.
void DecodeQueries(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                   Candidates& candidates, Implementation implementation) {
  const HeadSpecs head = MakeHeadSpecs(params);
  const auto& specs = head.specs;
  const size_t boxes_at = params.joined ? 0 : 1;
  const HeadInput scores(specs[0], inputs[0], scratch.scores, implementation);
  const HeadInput boxes(specs[boxes_at], inputs[boxes_at], scratch.head, implementation);
  CheckRowCounts(head, inputs);
  CandidateList list(params, inputs, scratch);
  const ScoreRows rows(params, scores, params.joined ? 4 : 0);
  AddScoreRows(params, rows, implementation, {&boxes}, scratch, list);
  const auto label = [&](uint32_t position) { return AnchorLabel(params, scratch, position); };
  const auto read_box = [&](int32_t query) { return boxes.Box(query); };
  list.Finish(boxes.rows(), params.ResolvedBoxFormat(), label, read_box, candidates);
}

}  // namespace

void DecodeRtdetr(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                  Candidates& candidates) {
  DecodeQueries(params, inputs, scratch, candidates, Implementation::kScalar);
}

void DecodeRtdetrSimd(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                      Candidates& candidates) {
  DecodeQueries(params, inputs, scratch, candidates, Implementation::kSimd);
}

}  // namespace endcap
