#include <algorithm>
#include <cmath>
#include <numeric>

#include "box_decode/head_input.h"
#include "box_decode/score.h"
#include "common/fail.h"
#include "endcap/box_decode.h"

namespace endcap {
namespace {

// Softmax with the maximum taken away first, summed in double.
std::vector<float> Softmax(std::span<const float> logits) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  if (!std::isfinite(highest))
    FailArgument("the greatest of the logits is ", highest, ", not finite");
  std::vector<double> powers;
  powers.reserve(logits.size());
  for (const float logit : logits) powers.push_back(std::exp(static_cast<double>(logit) - highest));
  const double total = std::accumulate(powers.begin(), powers.end(), 0.0);
  std::vector<float> scores;
  scores.reserve(powers.size());
  for (const double power : powers) scores.push_back(static_cast<float>(power / total));
  return scores;
}

std::vector<float> Activate(Activation activation, std::span<const float> logits) {
  if (activation == Activation::kFamilyDefault || activation == Activation::kSoftmax) {
    return Softmax(logits);
  }
  std::vector<float> scores;
  for (const float logit : logits) scores.push_back(ActivateScore(activation, logit));
  return scores;
}

}  // namespace

void Classify(const HeadParams& params, const ConstTensorView& logits, ClassScores& result) {
  const HeadInput input(HeadInputs(params)[0], logits);
  const std::vector<float> scores = Activate(params.activation, input.values());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!std::isfinite(scores[i])) FailArgument("the score of class ", i, " is ", scores[i]);
  }
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto top = order.begin() + params.ResolvedTopK();
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
  result.probabilities = scores;
}

}  // namespace endcap
