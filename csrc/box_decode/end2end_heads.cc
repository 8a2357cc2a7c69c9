#include <cmath>

#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score.h"
#include "common/fail.h"

// The heads of models that suppress by themselves: end2end and its like, efficient_nms, detections.

namespace endcap {
namespace {

[[noreturn]] void FailClass(const HeadParams& params, int64_t row, double class_id) {
  FailArgument("row ", row, " has class ", class_id, ": num_classes is ", params.num_classes);
}

}  // namespace

// `head` [K, 6+extra]: x1, y1, x2, y2, score, class; suppression is done in the model.
void DecodeEnd2End(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                   Candidates& candidates) {
  const HeadInput head(MakeHeadSpecs(params).specs[0], inputs[0], scratch.head);
  CandidateList list(params, inputs, scratch);
  list.CheckNan(head, HeadInput::kAll, 6);
  for (int64_t k = 0; k < head.rows(); ++k) {
    if (list.IsDropped(static_cast<size_t>(k))) continue;
    const float* row = head.row(k);
    const float score = ActivateScore(params.ResolvedActivation(), row[4]);
    if (!(score > list.threshold())) continue;
    if (list.drops() && std::isinf(row[5])) {
      list.Drop(static_cast<size_t>(k));
      continue;
    }
    const double class_id = row[5];
    if (!(class_id >= 0.0 && class_id < params.num_classes) || class_id != std::floor(class_id)) {
      FailClass(params, k, class_id);
    }
    list.Add(score, static_cast<uint32_t>(k), static_cast<uint32_t>(class_id));
  }
  const auto label = [&](uint32_t k) {
    return CandidateList::Label{static_cast<int32_t>(k), static_cast<int32_t>(head.row(k)[5])};
  };
  const auto read_box = [&](int32_t k) { return head.Box(k); };
  list.Finish(head.rows(), params.ResolvedBoxFormat(), label, read_box, candidates);
}

// Boxes, scores and classes. efficient_nms has a number of rows as well: the others do not count.
void DecodeDetectionRows(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                         Candidates& candidates) {
  const auto specs = MakeHeadSpecs(params).specs;
  const DetectionRowsRule rule = MakeDetectionRowsRule(params);
  const auto at = [](int32_t input) { return static_cast<size_t>(input); };
  const bool has_count = rule.count_input >= 0;
  const int64_t given = has_count ? IntegerInput(specs[0], inputs[0])[0] : HeadInput::kAll;
  if (given < 0) FailArgument("num_detections is ", given, ": it must not be negative");
  CandidateList list(params, inputs, scratch);
  const HeadInput boxes(specs[at(rule.box_input)], inputs[at(rule.box_input)], scratch.head);
  list.CheckNan(boxes, given);
  const HeadInput scores(specs[at(rule.score_input)], inputs[at(rule.score_input)], scratch.scores);
  list.CheckNan(scores, given);
  const IntegerInput classes(specs[at(rule.class_input)], inputs[at(rule.class_input)]);
  CheckRowCounts(params, inputs);
  const int64_t rows = boxes.rows();
  if (has_count && given > rows) {
    FailArgument("num_detections is ", given, ": the boxes have ", rows, " rows");
  }
  const int64_t count = has_count ? given : rows;
  for (int64_t k = 0; k < count; ++k) {
    if (list.IsDropped(static_cast<size_t>(k))) continue;
    const float score = scores.values()[static_cast<size_t>(k)];
    if (!(score > list.threshold())) continue;
    if (!rule.HasClass(classes[k], params.num_classes)) {
      FailClass(params, k, static_cast<double>(classes[k]));
    }
    if (rule.IsBackground(classes[k])) continue;
    list.Add(score, static_cast<uint32_t>(k), static_cast<uint32_t>(classes[k] - rule.first_class));
  }
  const auto label = [&](uint32_t k) {
    return CandidateList::Label{static_cast<int32_t>(k),
                                static_cast<int32_t>(classes[k] - rule.first_class)};
  };
  const auto read_box = [&](int32_t k) { return boxes.Box(k); };
  list.Finish(count, params.ResolvedBoxFormat(), label, read_box, candidates);
}

}  // namespace endcap
