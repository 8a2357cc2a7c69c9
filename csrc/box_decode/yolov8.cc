#include <vector>

#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score.h"

namespace endcap {
namespace {

struct Best {
  float raw;
  int class_id;
};

// The best class of every anchor, read row by row as the head lies in memory. The activation is
// monotonic, so raw scores can be compared.
std::vector<Best> BestClasses(const HeadInput& head, int num_classes) {
  const int64_t anchors = head.row_length();
  std::vector<Best> best(static_cast<size_t>(anchors));
  const float* first = head.row(4);
  for (size_t a = 0; a < best.size(); ++a) best[a] = {first[a], 0};
  for (int c = 1; c < num_classes; ++c) {
    const float* scores = head.row(4 + c);
    for (size_t a = 0; a < best.size(); ++a) {
      if (scores[a] > best[a].raw) best[a] = {scores[a], c};
    }
  }
  return best;
}

}  // namespace

// `head` [4+C, A]: four rows of boxes, then one row of scores for each class.
void DecodeYolov8(const HeadParams& params, HeadTensors inputs, Candidates& candidates) {
  const HeadInput head(endcap::HeadInputs(params)[0], inputs[0]);
  const int64_t anchors = head.row_length();
  CandidateList list(params);
  if (params.multi_label) {
    for (int c = 0; c < params.num_classes; ++c) {
      const float* scores = head.row(4 + c);
      for (int64_t a = 0; a < anchors; ++a) {
        list.Add(ActivateScore(params.activation, scores[a]), a, c);
      }
    }
  } else {
    const std::vector<Best> best = BestClasses(head, params.num_classes);
    for (int64_t a = 0; a < anchors; ++a) {
      const Best& entry = best[static_cast<size_t>(a)];
      list.Add(ActivateScore(params.activation, entry.raw), a, entry.class_id);
    }
  }
  const auto read_box = [&](int32_t a) {
    return BoxXyxy{head.row(0)[a], head.row(1)[a], head.row(2)[a], head.row(3)[a]};
  };
  list.Finish(ResolvedBoxFormat(params), read_box, candidates);
}

}  // namespace endcap
