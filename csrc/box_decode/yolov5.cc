#include <cmath>

#include "box_decode/anchors.h"
#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/head_scan.h"
#include "box_decode/score.h"
#include "common/fail.h"

namespace endcap {
namespace {

// One row. Positions are those of AnchorLabel. raw_limit: class scores under which a product with
// an objectness of 0 to 1 is not a candidate. Throws kInvalidArgument for a score that is NaN, or
// drops the row.
void AddYolov5Row(const HeadParams& params, const HeadInput& head, uint32_t anchor, float raw_limit,
                  DecodeScratch& scratch, CandidateList& list) {
  const auto classes = static_cast<uint32_t>(params.num_classes);
  const float* row = head.ReadRow(anchor, scratch.row);
  const bool multi_label = params.ResolvedMultiLabel();
  const Activation activation = params.ResolvedActivation();
  const float objectness = ActivateScore(activation, row[4]);
  const float least = objectness >= 0.0F && objectness <= 1.0F ? raw_limit : kLowestScore;
  float best = 0.0F;
  int best_class = -1;
  for (uint32_t c = 0; c < classes; ++c) {
    if (row[5 + c] < least) continue;
    const float score = objectness * ActivateScore(activation, row[5 + c]);
    if (std::isnan(score)) {
      if (list.drops()) return list.Drop(anchor);
      FailArgument("the score of anchor ", anchor, " is not a number");
    }
    if (multi_label) {
      list.Add(score, anchor * classes + c, c);
    } else if (best_class < 0 || score > best) {
      best = score;
      best_class = static_cast<int>(c);
    }
  }
  if (best_class < 0) return;
  scratch.best_class[anchor] = best_class;
  list.Add(best, anchor, static_cast<uint32_t>(best_class));
}

void AddYolov5Rows(const HeadParams& params, const HeadInput& head, DecodeScratch& scratch,
                   CandidateList& list) {
  const auto anchors = static_cast<uint32_t>(head.rows());
  for (uint32_t anchor = 0; anchor < anchors; ++anchor) {
    AddYolov5Row(params, head, anchor, kLowestScore, scratch, list);
  }
}

void FinishYolov5(const HeadParams& params, const HeadInput& head, CandidateList& list,
                  const DecodeScratch& scratch, Candidates& candidates) {
  const auto label = [&](uint32_t position) { return AnchorLabel(params, scratch, position); };
  const AnchorSettings settings = ResolveAnchors(params);
  const bool at_grid = settings.source == AnchorSource::kGrid;
  const auto read_box = [&](int32_t anchor) {
    const BoxXyxy box = head.Box(anchor);
    return at_grid ? BoxAtAnchor(box, AnchorAt(params, settings, anchor), settings) : box;
  };
  list.Finish(head.rows(), at_grid ? BoxFormat::kCxcywh : params.ResolvedBoxFormat(), label,
              read_box, candidates);
}

}  // namespace

// `head` [A, 5+C]: box, objectness, class scores. A score is objectness times class score. The
// boxes may be at a grid of anchors.
void DecodeYolov5(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                  Candidates& candidates) {
  const HeadInput head(MakeHeadSpecs(params).specs[0], inputs[0], scratch.head);
  CandidateList list(params, inputs, scratch);
  list.CheckNan(head);
  scratch.best_class.resize(static_cast<size_t>(head.rows()));
  AddYolov5Rows(params, head, scratch, list);
  FinishYolov5(params, head, list, scratch, candidates);
}

// Rows that cannot give a candidate are left out; the others are read as the definition reads them.
void DecodeYolov5Simd(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                      Candidates& candidates) {
  const HeadInput head(MakeHeadSpecs(params).specs[0], inputs[0]);
  const auto anchors = static_cast<size_t>(head.rows());
  scratch.passing.resize(anchors + kScanRoom);
  scratch.best_class.resize(anchors);
  CandidateList list(params, inputs, scratch);
  const Activation activation = params.ResolvedActivation();
  const ObjectnessLimits limits{list.ScoreLimit(), activation == Activation::kSigmoid,
                                RawLimit(activation, list.ScoreLimit())};
  const ScanResult found = ScanRows(head.values(), static_cast<size_t>(head.row_length()), limits,
                                    scratch.passing.data());
  if (found.may_hold_nan) {
    list.CheckNan(head);
    // Infinite numbers, then: their products may be NaN, in rows that were left out too.
    AddYolov5Rows(params, head, scratch, list);
  } else {
    for (size_t i = 0; i < found.passing; ++i) {
      AddYolov5Row(params, head, scratch.passing[i], limits.raw, scratch, list);
    }
  }
  FinishYolov5(params, head, list, scratch, candidates);
}

}  // namespace endcap
