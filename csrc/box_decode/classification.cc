#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score.h"
#include "common/fail.h"
#include "common/score_order.h"
#include "endcap/box_decode.h"

namespace endcap {
namespace {

// Softmax with the maximum taken away first, in double.
void Softmax(std::span<const float> logits, std::vector<float>& scores) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  if (!std::isfinite(highest))
    FailArgument("the greatest of the logits is ", highest, ", not finite");
  thread_local std::vector<double> powers;
  powers.clear();
  for (const float logit : logits) {
    powers.push_back(Exponential(static_cast<double>(logit) - highest));
  }
  std::array<double, kSumParts> parts{};
  for (size_t i = 0; i < powers.size(); ++i) parts[i % kSumParts] += powers[i];
  const double sum = SumParts(parts);
  for (const double power : powers) scores.push_back(static_cast<float>(power / sum));
  TrimScratch(powers);
}

void Activate(Activation activation, std::span<const float> logits, std::vector<float>& scores) {
  scores.clear();
  if (activation == Activation::kFamilyDefault || activation == Activation::kSoftmax) {
    return Softmax(logits, scores);
  }
  for (const float logit : logits) scores.push_back(ActivateScore(activation, logit));
}

// The classes that may be in the result: all, those of `classes`, or with multi_label those over
// their thresholds.
void ListCandidates(const HeadParams& params, std::span<const float> scores,
                    std::vector<int32_t>& class_ids) {
  thread_local std::vector<float> limits;
  FillClassLimits(params, limits);
  if (!params.ResolvedMultiLabel() && limits.empty()) {
    class_ids.resize(scores.size());
    std::iota(class_ids.begin(), class_ids.end(), 0);
    return;
  }
  const float lowest = LowestLimit(params, limits);
  const float* class_limits = limits.empty() ? nullptr : limits.data();
  class_ids.clear();
  for (uint32_t id = 0; id < scores.size(); ++id) {
    if (scores[id] > lowest && PassesClass(class_limits, id, scores[id])) {
      class_ids.push_back(static_cast<int32_t>(id));
    }
  }
  TrimScratch(limits);
}

}  // namespace

// One path: a thousand numbers, and the time is the exponential function's.
void Classify(const HeadParams& params, const ConstTensorView& logits, ClassScores& result) {
  thread_local std::vector<float> converted;
  thread_local std::vector<int32_t> order;
  const HeadInput input(MakeHeadSpecs(params).specs[0], logits, converted);
  input.RefuseNan();
  std::vector<float>& scores = result.probabilities;
  Activate(params.activation, {input.values().floats(), input.values().size()}, scores);
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!std::isfinite(scores[i])) FailArgument("the score of class ", i, " is ", scores[i]);
  }
  ListCandidates(params, scores, order);
  const auto top =
      order.begin() + std::min<std::ptrdiff_t>(params.ResolvedTopK(), std::ssize(order));
  std::partial_sort(order.begin(), top, order.end(), [&](int32_t a, int32_t b) {
    const float score_a = scores[static_cast<size_t>(a)];
    const float score_b = scores[static_cast<size_t>(b)];
    return score_a > score_b || (score_a == score_b && a < b);
  });
  result.class_ids.assign(order.begin(), top);
  result.scores.clear();
  for (const int32_t id : result.class_ids) {
    result.scores.push_back(scores[static_cast<size_t>(id)]);
  }
  TrimScratch(converted, order);
}

}  // namespace endcap
