#pragma once

#include <cmath>

#include "common/elementary_functions.h"
#include "common/host_device.h"
#include "common/score_order.h"

namespace endcap {

// A rotated box as a normal distribution: its centre, and the covariance [[a, c], [c, b]] of a
// uniform distribution over the box.
struct GaussianBox {
  float cx, cy;
  float a, b, c;
  float determinant;  // of the covariance, not below 0
};

// xywhr float32 [5]: centre, width, height, angle.
ENDCAP_HOST_DEVICE inline GaussianBox MakeGaussianBox(const float* xywhr) {
  const CosSin turn = ComputeCosSin(xywhr[4]);
  const auto cos = static_cast<float>(turn.cos);
  const auto sin = static_cast<float>(turn.sin);
  const float along = xywhr[2] * xywhr[2] / 12.0F;
  const float across = xywhr[3] * xywhr[3] / 12.0F;
  const float cos2 = cos * cos;
  const float sin2 = sin * sin;
  const float a = along * cos2 + across * sin2;
  const float b = along * sin2 + across * cos2;
  const float c = (along - across) * cos * sin;
  const float determinant = a * b - c * c;
  return {xywhr[0], xywhr[1], a, b, c, determinant < 0.0F ? 0.0F : determinant};
}

namespace rotated {

inline constexpr float kProbiouEpsilon = 1e-7F;
inline constexpr float kMaxBhattacharyya = 100.0F;

// The Bhattacharyya distance of two boxes is `places` + ln(shapes) / 2.
struct BhattacharyyaTerms {
  float places;  // how far the centres are apart
  float shapes;  // how unlike the covariances are; 1 or more but for rounding
};

ENDCAP_HOST_DEVICE inline BhattacharyyaTerms ComputeTerms(const GaussianBox& p,
                                                          const GaussianBox& q) {
  const float a = p.a + q.a;
  const float b = p.b + q.b;
  const float c = p.c + q.c;
  const float dx = p.cx - q.cx;
  const float dy = p.cy - q.cy;
  const float determinant = a * b - c * c;
  const float squares = (a * (dy * dy) + b * (dx * dx)) / (determinant + kProbiouEpsilon) * 0.25F;
  const float product = c * (q.cx - p.cx) * dy / (determinant + kProbiouEpsilon) * 0.5F;
  const float geometric = 4.0F * std::sqrt(p.determinant * q.determinant) + kProbiouEpsilon;
  return {squares + product, determinant / geometric + kProbiouEpsilon};
}

ENDCAP_HOST_DEVICE inline float ComputeProbiou(const BhattacharyyaTerms& terms) {
  const auto log_shapes = static_cast<float>(Logarithm(static_cast<double>(terms.shapes)));
  float distance = terms.places + log_shapes * 0.5F;
  if (distance < kProbiouEpsilon) distance = kProbiouEpsilon;
  if (distance > kMaxBhattacharyya) distance = kMaxBhattacharyya;
  if (!(distance == distance)) return distance;
  const auto coefficient = static_cast<float>(Exponential(-static_cast<double>(distance)));
  return 1.0F - std::sqrt(1.0F - coefficient + kProbiouEpsilon);
}

}  // namespace rotated

// 1 less the Hellinger distance of two boxes as normal distributions (arXiv 2106.06072), in float32
// and in the order of operations of ultralytics' batch_probiou, with its epsilons and limits: what
// these make of boxes without an area is part of the definition. The same in both orders of the
// boxes.
ENDCAP_HOST_DEVICE inline float Probiou(const GaussianBox& p, const GaussianBox& q) {
  return rotated::ComputeProbiou(rotated::ComputeTerms(p, q));
}

// A threshold for Probiou, and the Bhattacharyya distance from which on no pair exceeds it.
struct ProbiouLimit {
  float threshold;
  float distance;
};

// The limit for a threshold t in [0, 1].
//
// Probiou computes 1 - sqrt(1 - e + epsilon), e = exp(-distance), with five float32 roundings of at
// most 6e-8 each. So a result above t takes an e above 1 - (1 - t)^2 - 1e-6, and the distance is
// less than the negative logarithm of that. From a distance of 17 on, e is below 2^-24.5: then 1 -
// e rounds to 1 - 2^-24 or 1, the sum with epsilon to 1 or more, and the result is not above 0.
inline ProbiouLimit MakeProbiouLimit(double threshold) {
  constexpr double kFarthest = 17.0;
  const double least = 1.0 - (1.0 - threshold) * (1.0 - threshold) - 1e-6;
  const double distance = least > 0.0 ? -std::log(least) * (1.0 + 1e-6) : kFarthest;
  return {GreatestFloatAtMost(threshold),
          static_cast<float>(distance < kFarthest ? distance : kFarthest)};
}

// Whether Probiou > limit.threshold. Where `shapes` is 1 or more, half its logarithm is not
// negative, and adding it to `places`, as rounded, gives no less than `places`.
ENDCAP_HOST_DEVICE inline bool ProbiouExceeds(const GaussianBox& p, const GaussianBox& q,
                                              const ProbiouLimit& limit) {
  const rotated::BhattacharyyaTerms terms = rotated::ComputeTerms(p, q);
  if (terms.places >= limit.distance && terms.shapes >= 1.0F) return false;
  return rotated::ComputeProbiou(terms) > limit.threshold;
}

}  // namespace endcap
