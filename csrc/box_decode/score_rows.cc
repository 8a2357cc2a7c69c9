#include "box_decode/score_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "box_decode/head_scan.h"
#include "box_decode/score.h"
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

}  // namespace

ScoreRows::ScoreRows(const HeadParams& params, const HeadInput& head, int64_t first_column)
    : tensor(head), first(head.values().floats()) {
  const Background place = params.ResolvedBackground();
  has_background = place != Background::kNone;
  background = place == Background::kFirst ? -1 : params.num_classes;
  first_class = place == Background::kFirst ? 1 : 0;
  // Without rows there may be no memory, which nothing can be added to.
  if (head.values().size() > 0) first += first_column + static_cast<int64_t>(first_class);
}

void CheckRowCounts(const HeadSpecs& specs, HeadTensors inputs) {
  for (size_t i = 1; i < specs.count; ++i) {
    const int64_t rows = inputs[i].shape[0];
    if (rows == inputs[0].shape[0]) continue;
    FailArgument(specs.specs[0].name, " has ", inputs[0].shape[0], " rows and ",
                 specs.specs[i].name, " has ", rows, ": they must have as many");
  }
}

void AddScoreRows(const HeadParams& params, const ScoreRows& rows, Implementation implementation,
                  std::initializer_list<const HeadInput*> others, DecodeScratch& scratch,
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

}  // namespace endcap
