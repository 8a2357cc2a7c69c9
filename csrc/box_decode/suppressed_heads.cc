#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score.h"
#include "common/fail.h"

// The heads of models that suppress by themselves: end2end and efficient_nms.

namespace endcap {

// `head` [K, 6]: x1, y1, x2, y2, score, class; suppression is done in the model.
void DecodeEnd2End(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                   Candidates& candidates) {
  const HeadInput head(MakeHeadSpecs(params).specs[0], inputs[0], scratch.head);
  head.RefuseNan();
  CandidateList list(params, scratch);
  for (int64_t k = 0; k < head.rows(); ++k) {
    const float* row = head.row(k);
    const float score = ActivateScore(params.ResolvedActivation(), row[4]);
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

// The outputs of TensorRT's EfficientNMS: only the first num_detections rows count.
void DecodeEfficientNms(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                        Candidates& candidates) {
  const auto specs = MakeHeadSpecs(params).specs;
  const int32_t count = CheckedIntegers(specs[0], inputs[0])[0];
  if (count < 0) FailArgument("num_detections is ", count, ": it must not be negative");
  const HeadInput boxes(specs[1], inputs[1], scratch.head);
  boxes.RefuseNan(count);
  const HeadInput scores(specs[2], inputs[2], scratch.scores);
  scores.RefuseNan(count);
  const auto classes = CheckedIntegers(specs[3], inputs[3]);
  const int64_t rows = boxes.rows();
  if (scores.rows() != rows || std::ssize(classes) != rows) {
    FailArgument("boxes, scores and classes have ", rows, ", ", scores.rows(), " and ",
                 classes.size(), " rows: they must have as many");
  }
  if (count > rows) {
    FailArgument("num_detections is ", count, ": the boxes have ", rows, " rows");
  }
  CandidateList list(params, scratch);
  for (int32_t k = 0; k < count; ++k) {
    const auto i = static_cast<size_t>(k);
    if (static_cast<double>(scores.values()[i]) > params.score_threshold) {
      CheckedClass(params, classes[i], k);
      list.Add(scores.values()[i], static_cast<uint32_t>(k));
    }
  }
  const auto label = [&](uint32_t k) {
    return CandidateList::Label{static_cast<int32_t>(k), classes[k]};
  };
  const auto read_box = [&](int32_t k) { return boxes.Box(k); };
  list.Finish(params.ResolvedBoxFormat(), label, read_box, candidates);
}

}  // namespace endcap
