#include "box_decode/score_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "box_decode/head_scan.h"
#include "box_decode/score.h"
#include "common/exponential.h"
#include "common/fail.h"

namespace endcap {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

float Highest(const HeadParams& params, const ScoreRows& rows, uint32_t row) {
  const float* scores = rows.Row(row);
  float highest = *std::max_element(scores, scores + params.num_classes);
  if (rows.has_background) highest = std::max(highest, scores[rows.background]);
  if (!std::isfinite(highest)) {
    FailArgument("the greatest score of row ", row, " is ", highest,
                 ": a softmax needs a finite one");
  }
  return highest;
}

// Fills scratch.powers with each class's part of a softmax; the sum that it is a part of.
double SoftmaxParts(const HeadParams& params, const ScoreRows& rows, uint32_t row,
                    DecodeScratch& scratch) {
  const float* scores = rows.Row(row);
  const double highest = Highest(params, rows, row);
  scratch.powers.resize(static_cast<size_t>(params.num_classes));
  double sum = rows.has_background ? Exponential(scores[rows.background] - highest) : 0.0;
  for (size_t c = 0; c < scratch.powers.size(); ++c) {
    scratch.powers[c] = Exponential(scores[c] - highest);
    sum += scratch.powers[c];
  }
  return sum;
}

// Adds a row whose class c has the score score_of(c). Raw scores that are not greater than
// `raw_limit` are no candidates.
template <typename ScoreOf>
void AddClasses(const HeadParams& params, const float* raw, uint32_t row, float raw_limit,
                ScoreOf score_of, DecodeScratch& scratch, CandidateList& list) {
  const auto classes = static_cast<uint32_t>(params.num_classes);
  if (params.ResolvedMultiLabel()) {
    for (uint32_t c = 0; c < classes; ++c) {
      if (raw[c] > raw_limit) list.Add(score_of(c), row * classes + c);
    }
    return;
  }
  const auto best = static_cast<uint32_t>(std::max_element(raw, raw + classes) - raw);
  scratch.best_class[row] = static_cast<int32_t>(best);
  list.Add(score_of(best), row);
}

void AddRow(const HeadParams& params, const ScoreRows& rows, uint32_t row, float raw_limit,
            DecodeScratch& scratch, CandidateList& list) {
  const float* raw = rows.Row(row);
  const Activation activation = params.ResolvedActivation();
  if (activation == Activation::kSoftmax) {
    const double sum = SoftmaxParts(params, rows, row, scratch);
    const auto score_of = [&](uint32_t c) { return static_cast<float>(scratch.powers[c] / sum); };
    AddClasses(params, raw, row, kLowest, score_of, scratch, list);
  } else {
    const auto score_of = [&](uint32_t c) { return ActivateScore(activation, raw[c]); };
    AddClasses(params, raw, row, raw_limit, score_of, scratch, list);
  }
}

// A row has no candidate whose greatest class score, less the background's score where a softmax
// has one, is not greater than this.
//
// With a background b, softmax gives class c at most 1 / (1 + e^(b - c)), since these two are not
// more than the whole: the sigmoid of c - b must pass. The subtraction rounds by less than a part
// in 10^7, for which the limit gives way. Without a background nothing can be said.
float RowLimit(const HeadParams& params, const ScoreRows& rows, float score_limit) {
  const Activation activation = params.ResolvedActivation();
  if (activation != Activation::kSoftmax) return RawLimit(activation, score_limit);
  if (!rows.has_background) return kLowest;
  const float limit = RawLimit(Activation::kSigmoid, score_limit);
  return limit - 1e-6F * std::max(1.0F, std::abs(limit));
}

bool AddPassingRows(const HeadParams& params, const ScoreRows& rows, DecodeScratch& scratch,
                    CandidateList& list) {
  scratch.best.resize(rows.count());
  const bool may_hold_nan =
      ScanGreatest(rows, static_cast<size_t>(params.num_classes), scratch.best.data());
  const bool subtracts = rows.has_background && params.ResolvedActivation() == Activation::kSoftmax;
  const float limit = RowLimit(params, rows, list.ScoreLimit());
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
    : tensor(head), first(head.values().data() + first_column) {
  const Background place = params.ResolvedBackground();
  has_background = place != Background::kNone;
  background = place == Background::kFirst ? -1 : params.num_classes;
  if (place == Background::kFirst) ++first;
}

void AddScoreRows(const HeadParams& params, const ScoreRows& rows, Path path,
                  std::initializer_list<const HeadInput*> others, DecodeScratch& scratch,
                  CandidateList& list) {
  scratch.best_class.resize(rows.count());
  if (path == Path::kSimd) {
    const bool suspect = std::any_of(others.begin(), others.end(), [](const HeadInput* other) {
      return MayHoldNan(other->values());
    });
    if (!suspect && !AddPassingRows(params, rows, scratch, list)) return;
  }
  rows.tensor.RefuseNan();
  for (const HeadInput* other : others) other->RefuseNan();
  for (uint32_t row = 0; row < rows.count(); ++row) {
    AddRow(params, rows, row, kLowest, scratch, list);
  }
}

}  // namespace endcap
