#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score.h"

namespace endcap {

// `head` [K, 6]: x1, y1, x2, y2, score, class; suppression is done in the model.
void DecodeEnd2End(const HeadParams& params, HeadTensors inputs, Candidates& candidates) {
  const HeadInput head(endcap::HeadInputs(params)[0], inputs[0]);
  CandidateList list(params);
  for (int64_t k = 0; k < head.rows(); ++k) {
    const float* row = head.row(k);
    const float score = ActivateScore(params.activation, row[4]);
    if (static_cast<double>(score) > params.score_threshold) {
      list.Add(score, k, CheckedClass(params, static_cast<double>(row[5]), k));
    }
  }
  const auto read_box = [&](int32_t k) { return head.Box(k); };
  list.Finish(ResolvedBoxFormat(params), read_box, candidates);
}

}  // namespace endcap
