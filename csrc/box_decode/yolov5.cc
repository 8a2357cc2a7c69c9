#include <cmath>

#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score.h"
#include "common/fail.h"

namespace endcap {

// `head` [A, 5+C]: box, objectness, class scores. A score is objectness times class score.
void DecodeYolov5(const HeadParams& params, HeadTensors inputs, Candidates& candidates) {
  const HeadInput head(endcap::HeadInputs(params)[0], inputs[0]);
  CandidateList list(params);
  for (int64_t anchor = 0; anchor < head.rows(); ++anchor) {
    const float* row = head.row(anchor);
    const float objectness = ActivateScore(params.activation, row[4]);
    float best = 0.0F;
    int best_class = -1;
    for (int c = 0; c < params.num_classes; ++c) {
      const float score = objectness * ActivateScore(params.activation, row[5 + c]);
      if (std::isnan(score)) FailArgument("the score of anchor ", anchor, " is not a number");
      if (params.multi_label) {
        list.Add(score, anchor, c);
      } else if (best_class < 0 || score > best) {
        best = score;
        best_class = c;
      }
    }
    if (!params.multi_label) list.Add(best, anchor, best_class);
  }
  const auto read_box = [&](int32_t anchor) { return head.Box(anchor); };
  list.Finish(ResolvedBoxFormat(params), read_box, candidates);
}

}  // namespace endcap
