#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/elementary_functions.h"
#include "common/host_device.h"
#include "endcap/box_decode.h"

namespace endcap {

// A limit that all scores but NaN reach.
inline constexpr float kLowestScore = -std::numeric_limits<float>::infinity();

// A raw score under `activation`; kFamilyDefault and kNone leave it.
ENDCAP_HOST_DEVICE inline float ActivateScore(Activation activation, float raw) {
  if (activation != Activation::kSigmoid) return raw;
  return static_cast<float>(1.0 / (1.0 + Exponential(-static_cast<double>(raw))));
}

// Whether a score is enough for its class. limits: of FillClassLimits; null: every class has the
// limit that the score has passed already.
ENDCAP_HOST_DEVICE inline bool PassesClass(const float* limits, uint32_t class_id, float score) {
  return limits == nullptr || score > limits[class_id];
}

// A raw score whose ActivateScore is greater than `limit` (0 to 1) is greater than this. The
// converse need not hold: it is for leaving out most of those that are not.
inline float RawLimit(Activation activation, float limit) {
  if (activation != Activation::kSigmoid) return limit;
  // The errors of exponential, sum and quotient are less than a millionth of the score, unless it
  // is near to the subnormal numbers.
  const double probability = std::min(static_cast<double>(limit), 1.0) * (1.0 - 1e-6);
  if (probability < 1e-30) return kLowestScore;
  const double logit = std::log(probability / (1.0 - probability));
  return std::nextafter(static_cast<float>(logit), kLowestScore);
}

// The same for the greatest class score of a row, less the background's score where a softmax has
// one. A row for which it is not greater has no candidate.
//
// With a background b, softmax gives class c at most 1 / (1 + e^(b - c)), since these two are not
// more than the whole: the sigmoid of c - b must pass. The subtraction rounds by less than a part
// in 10^7, for which the limit gives way. Without a background nothing can be said.
inline float RowLimit(Activation activation, bool has_background, float limit) {
  if (activation != Activation::kSoftmax) return RawLimit(activation, limit);
  if (!has_background) return -std::numeric_limits<float>::infinity();
  const float raw_limit = RawLimit(Activation::kSigmoid, limit);
  return raw_limit - 1e-6F * std::max(1.0F, std::abs(raw_limit));
}

// rtdetr and ssd: where a row of scores is, and its box. Lengths are numbers in a row of the input.
struct ScoreRowRule {
  int32_t score_input;
  int32_t box_input;
  uint32_t score_row_length;
  uint32_t box_row_length;
  uint32_t first_score;  // of a row of the input; the background counts as a score
  uint32_t columns;      // scores
  uint32_t first_class;  // among the scores
  int32_t background;    // among the scores; -1: none
};
inline constexpr int kAnchorInput = 2;  // of ssd

// Sums of powers are taken in parts (element i goes to part i modulo their number), and the upper
// half of the parts is added to the lower until one is left: an order that the threads of a GPU can
// keep as well.
inline constexpr int kSumParts = 256;   // a classifier's logits: by a block
inline constexpr int kRowSumParts = 8;  // a row of scores: by a group of a warp's lanes

template <size_t kParts>
double SumParts(std::array<double, kParts> parts) {
  static_assert((kParts & (kParts - 1)) == 0);
  for (size_t half = kParts / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  }
  return parts[0];
}

}  // namespace endcap
