#include "box_decode/score_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "box_decode/anchors.h"
#include "box_decode/candidate_list.h"
#include "box_decode/head_scan.h"
#include "common/elementary_functions.h"
#include "common/fail.h"

namespace endcap {
namespace {

float Highest(const HeadParams& params, const ScoreRows& rows, uint32_t row) {
  const float* scores = rows.Row(row);
  float highest = *std::max_element(scores, scores + params.num_classes);
  if (rows.has_background) highest = std::max(highest, scores[rows.background]);
  return highest;
}

// Fills scratch.powers with each score's part of a softmax, the background's included; the sum that
// it is a part of. highest: the greatest score.
double SoftmaxParts(const HeadParams& params, const ScoreRows& rows, uint32_t row, double highest,
                    DecodeScratch& scratch) {
  const float* scores = rows.Row(row) - rows.first_class;
  scratch.powers.resize(static_cast<size_t>(ScoreColumns(params)));
  std::array<double, kRowSumParts> parts{};
  for (size_t i = 0; i < scratch.powers.size(); ++i) {
    scratch.powers[i] = Exponential(scores[i] - highest);
    parts[i % kRowSumParts] += scratch.powers[i];
  }
  return SumParts(parts);
}

// Adds a row whose class c has the score score_of(c). Raw scores that are not greater than
// `raw_limit` are no candidates.
template <typename ScoreOf>
void AddClasses(const HeadParams& params, const float* raw, uint32_t row, float raw_limit,
                ScoreOf score_of, DecodeScratch& scratch, CandidateList& list) {
  const auto classes = static_cast<uint32_t>(params.num_classes);
  if (params.ResolvedMultiLabel()) {
    for (uint32_t c = 0; c < classes; ++c) {
      if (raw[c] > raw_limit) list.Add(score_of(c), row * classes + c, c);
    }
    return;
  }
  const auto best = static_cast<uint32_t>(std::max_element(raw, raw + classes) - raw);
  scratch.best_class[row] = static_cast<int32_t>(best);
  list.Add(score_of(best), row, best);
}

void AddRow(const HeadParams& params, const ScoreRows& rows, uint32_t row, float raw_limit,
            DecodeScratch& scratch, CandidateList& list) {
  const float* raw = rows.Row(row);
  const Activation activation = params.ResolvedActivation();
  if (activation == Activation::kSoftmax) {
    const float highest = Highest(params, rows, row);
    if (!std::isfinite(highest)) {
      if (list.drops()) return list.Drop(row);
      FailArgument("the greatest score of row ", row, " is ", highest,
                   ": a softmax needs a finite one");
    }
    const double sum = SoftmaxParts(params, rows, row, highest, scratch);
    const double* powers = scratch.powers.data() + rows.first_class;
    const auto score_of = [&](uint32_t c) { return static_cast<float>(powers[c] / sum); };
    AddClasses(params, raw, row, kLowestScore, score_of, scratch, list);
  } else {
    const auto score_of = [&](uint32_t c) { return ActivateScore(activation, raw[c]); };
    AddClasses(params, raw, row, raw_limit, score_of, scratch, list);
  }
}

bool AddPassingRows(const HeadParams& params, const ScoreRows& rows, DecodeScratch& scratch,
                    CandidateList& list) {
  scratch.best.resize(rows.count());
  const bool may_hold_nan =
      ScanGreatest(rows, static_cast<size_t>(params.num_classes), scratch.best.data());
  const bool subtracts = rows.has_background && params.ResolvedActivation() == Activation::kSoftmax;
  const float limit = RowLimit(params.ResolvedActivation(), rows.has_background, list.ScoreLimit());
  if (may_hold_nan) return true;
  for (uint32_t row = 0; row < rows.count(); ++row) {
    const float background = subtracts ? rows.Row(row)[rows.background] : 0.0F;
    if (!(scratch.best[row] - background > limit)) continue;
    AddRow(params, rows, row, limit, scratch, list);
  }
  return false;
}

// Adds the candidates of every row, in the manner of AnchorLabel. The simd implementation scans
// first, and leaves out the rows that cannot pass. Throws kInvalidArgument for a NaN in the scores
// or in `others`, and for a softmax over a row whose greatest score is not finite; or drops the
// row.
void AddScoreRows(const HeadParams& params, const ScoreRows& rows, Implementation implementation,
                  std::span<const HeadInput* const> others, DecodeScratch& scratch,
                  CandidateList& list) {
  scratch.best_class.resize(rows.count());
  if (implementation == Implementation::kSimd) {
    const bool suspect = std::any_of(others.begin(), others.end(), [](const HeadInput* other) {
      return MayHoldNan(other->values());
    });
    if (!suspect && !AddPassingRows(params, rows, scratch, list)) return;
  }
  list.CheckNan(rows.tensor);
  for (const HeadInput* other : others) list.CheckNan(*other);
  for (uint32_t row = 0; row < rows.count(); ++row) {
    if (list.IsDropped(row)) continue;
    AddRow(params, rows, row, kLowestScore, scratch, list);
  }
}

// Scores and boxes in two inputs, or joined in one, and, of ssd, `anchors` [A, 4] in a third: SSD
// (arXiv 1512.02325), RetinaNet (arXiv 1708.02002) and others of their kind; RT-DETR (arXiv
// 2304.08069), every query's classes of which are candidates, and nothing is suppressed. rtdetr_seg
// has a third input, of which only the rows are counted here.
void Decode(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
            Candidates& candidates, Implementation implementation) {
  const HeadSpecs head = MakeHeadSpecs(params);
  const AnchorSettings settings = ResolveAnchors(params);
  const ScoreRowRule rule = MakeScoreRowRule(params);
  const auto second_at = static_cast<size_t>(std::max(rule.score_input, rule.box_input));
  const HeadInput first(head.specs[0], inputs[0], scratch.head, implementation);
  const HeadInput second(head.specs[second_at], inputs[second_at], scratch.scores, implementation);
  const HeadInput& scores = rule.score_input == 0 ? first : second;
  const HeadInput& boxes = rule.box_input == 0 ? first : second;
  std::optional<HeadInput> anchors;
  if (settings.source == AnchorSource::kInput) {
    anchors.emplace(head.specs[kAnchorInput], inputs[kAnchorInput], scratch.anchors,
                    implementation);
  }
  CheckRowCounts(params, inputs);
  CandidateList list(params, inputs, scratch);
  const HeadInput* const others[] = {&boxes, anchors ? &*anchors : nullptr};
  AddScoreRows(params, ScoreRows(rule, scores), implementation,
               std::span(others).first(anchors ? 2 : 1), scratch, list);
  const auto label = [&](uint32_t position) { return AnchorLabel(params, scratch, position); };
  if (settings.source == AnchorSource::kNone) {
    const auto read_box = [&](int32_t row) { return boxes.Box(row); };
    return list.Finish(boxes.rows(), params.ResolvedBoxFormat(), label, read_box, candidates);
  }
  const bool from_corners = params.ResolvedBoxFormat() == BoxFormat::kXyxy;
  const auto read_box = [&](int32_t row) {
    if (!anchors) return BoxAtAnchor(boxes.Box(row), AnchorAt(params, settings, row), settings);
    const BoxXyxy anchor = anchors->Box(row);
    return BoxAtAnchor(boxes.Box(row), from_corners ? ToCentreForm(anchor) : anchor, settings);
  };
  list.Finish(boxes.rows(), BoxFormat::kCxcywh, label, read_box, candidates);
}

}  // namespace

ScoreRowRule MakeScoreRowRule(const HeadParams& params) noexcept {
  const std::string_view first = MakeHeadSpecs(params).specs[0].name;
  const bool joined = first == "head";
  const bool boxes_first = first == "boxes";
  const DetectionRowsRule classes = MakeDetectionRowsRule(params);
  ScoreRowRule rule = {};
  rule.score_input = boxes_first ? 1 : 0;
  rule.box_input = boxes_first || joined ? 0 : 1;
  rule.first_score = joined ? 4 : 0;
  rule.columns = static_cast<uint32_t>(ScoreColumns(params));
  rule.score_row_length = rule.first_score + rule.columns;
  rule.box_row_length = joined ? rule.score_row_length : 4;
  rule.first_class = static_cast<uint32_t>(classes.first_class);
  rule.background = classes.background;
  return rule;
}

ScoreRows::ScoreRows(const ScoreRowRule& rule, const HeadInput& head)
    : tensor(head),
      first(head.values().floats()),
      has_background(rule.background >= 0),
      background(rule.background - ptrdiff_t{rule.first_class}),
      first_class(rule.first_class) {
  // Without rows there may be no memory, which nothing can be added to.
  if (head.values().size() > 0) first += size_t{rule.first_score} + rule.first_class;
}

void DecodeScoreRows(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                     Candidates& candidates) {
  Decode(params, inputs, scratch, candidates, Implementation::kScalar);
}

void DecodeScoreRowsSimd(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                         Candidates& candidates) {
  Decode(params, inputs, scratch, candidates, Implementation::kSimd);
}

}  // namespace endcap
