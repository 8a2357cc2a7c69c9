#include "box_decode/yolov8.h"

#include "box_decode/score.h"

namespace endcap {
namespace {

// The best class of every anchor, read row by row as the head lies in memory. The activation is
// monotonic, so raw scores can be compared.
void FindBestClasses(const HeadInput& head, int num_classes, DecodeScratch& scratch) {
  const auto anchors = static_cast<size_t>(head.row_length());
  const float* first = head.row(4);
  scratch.best.assign(first, first + anchors);
  scratch.best_class.assign(anchors, 0);
  for (int c = 1; c < num_classes; ++c) {
    const float* scores = head.row(4 + c);
    for (size_t a = 0; a < anchors; ++a) {
      if (scores[a] > scratch.best[a]) {
        scratch.best[a] = scores[a];
        scratch.best_class[a] = c;
      }
    }
  }
}

}  // namespace

// `head` [4+C+extra, A]: four rows of boxes, then one row of scores for each class.
void DecodeYolov8(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                  Candidates& candidates) {
  const HeadInput head(MakeHeadSpecs(params).specs[0], inputs[0], scratch.head);
  head.RefuseNan(4 + params.num_classes);
  const auto anchors = static_cast<uint32_t>(head.row_length());
  const auto classes = static_cast<uint32_t>(params.num_classes);
  CandidateList list(params, scratch);
  if (params.ResolvedMultiLabel()) {
    for (uint32_t c = 0; c < classes; ++c) {
      const float* scores = head.row(4 + c);
      for (uint32_t a = 0; a < anchors; ++a) {
        list.Add(ActivateScore(params.activation, scores[a]), a * classes + c);
      }
    }
  } else {
    FindBestClasses(head, params.num_classes, scratch);
    for (uint32_t a = 0; a < anchors; ++a) {
      list.Add(ActivateScore(params.activation, scratch.best[a]), a);
    }
  }
  FinishYolov8(params, head, list, scratch, candidates);
}

}  // namespace endcap
