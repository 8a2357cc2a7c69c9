#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score.h"

namespace endcap {

// `head` [K, 6]: x1, y1, x2, y2, score, class; suppression is done in the model.
void DecodeEnd2End(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                   Candidates& candidates) {
  const HeadInput head(MakeHeadSpecs(params).specs[0], inputs[0], scratch.head);
  head.RefuseNan();
  CandidateList list(params, scratch);
  for (int64_t k = 0; k < head.rows(); ++k) {
    const float* row = head.row(k);
    const float score = ActivateScore(params.activation, row[4]);
    if (static_cast<double>(score) > params.score_threshold) {
      CheckedClass(params, static_cast<double>(row[5]), k);
      list.Add(score, static_cast<uint32_t>(k));
    }
  }
  const auto label = [&](uint32_t k) {
    return CandidateList::Label{static_cast<int32_t>(k), static_cast<int32_t>(head.row(k)[5])};
  };
  const auto read_box = [&](int32_t k) { return head.Box(k); };
  list.Finish(params.ResolvedBoxFormat(), label, read_box, candidates);
}

}  // namespace endcap
