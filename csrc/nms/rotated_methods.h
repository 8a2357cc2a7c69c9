#pragma once

#include <algorithm>
#include <cmath>

#include "common/score_order.h"
#include "nms/rotated_polygon.h"
#include "nms/rotated_probiou.h"

namespace endcap {

// The two methods of comparing rotated boxes, as template arguments of suppression. Box is a
// prepared box, which Prepare makes of xywhr float32 [5]. Overlaps: whether it can suppress or be
// suppressed at all. Iou is the definition. Exceeds with a Limit returns Iou > threshold, faster.

struct PolygonMethod {
  using Box = RotatedBox;
  using Limit = float;

  ENDCAP_HOST_DEVICE static Box Prepare(const float* xywhr) { return MakeRotatedBox(xywhr); }
  ENDCAP_HOST_DEVICE static bool Overlaps(const Box& box) { return box.area > 0.0; }
  static float Iou(const Box& a, const Box& b) { return RotatedIou(a, b); }
  static Limit MakeLimit(double iou_threshold) { return GreatestFloatAtMost(iou_threshold); }
  ENDCAP_HOST_DEVICE static bool Exceeds(const Box& a, const Box& b, Limit limit) {
    return RotatedIouExceeds(a, b, limit);
  }
};

struct ProbiouMethod {
  using Box = GaussianBox;
  using Limit = ProbiouLimit;

  ENDCAP_HOST_DEVICE static Box Prepare(const float* xywhr) { return MakeGaussianBox(xywhr); }
  ENDCAP_HOST_DEVICE static bool Overlaps(const Box&) { return true; }
  static float Iou(const Box& a, const Box& b) { return Probiou(a, b); }
  static Limit MakeLimit(double iou_threshold) { return MakeProbiouLimit(iou_threshold); }
  ENDCAP_HOST_DEVICE static bool Exceeds(const Box& a, const Box& b, const Limit& limit) {
    return ProbiouExceeds(a, b, limit);
  }
};

// Bounds in float32 that exclude most pairs of boxes, many at a time. Valid only if `known`, which
// requires sizes that keep rounding errors small; other boxes are compared with every box.
struct RotatedBounds {
  float cx, cy;
  float reach_x, reach_y;
  float area;
  bool known;
};

// The polygon method. Boxes overlap only where their axis-aligned bounding boxes do, whose half
// sizes the reaches are, and share no more than these do, nor than the smaller area. An IoU above t
// takes a shared area above t/(1+t) of the sum of the areas.
class PolygonBounds {
 public:
  using Method = PolygonMethod;

  explicit PolygonBounds(double iou_threshold)
      : share_(iou_threshold >= kMinThreshold
                   ? static_cast<float>(iou_threshold / (1.0 + iou_threshold) * (1.0 - kSlack))
                   : 0.0F) {}

  PolygonBounds() = default;
  ENDCAP_HOST_DEVICE RotatedBounds Of(const float* xywhr, const RotatedBox& box) const {
    const float low = std::min(xywhr[2], xywhr[3]);
    const float high = std::max(xywhr[2], xywhr[3]);
    return {xywhr[0],
            xywhr[1],
            static_cast<float>(box.half_extent_x * kGrowth),
            static_cast<float>(box.half_extent_y * kGrowth),
            static_cast<float>(box.area),
            low >= 0x1p-40F && high <= 0x1p40F};
  }
  float share() const noexcept { return share_; }
  // Whether two known boxes may have an IoU above the threshold.
  ENDCAP_HOST_DEVICE bool MayExceed(const RotatedBounds& a, const RotatedBounds& b) const {
    const float width = a.reach_x + b.reach_x - std::abs(a.cx - b.cx);
    const float height = a.reach_y + b.reach_y - std::abs(a.cy - b.cy);
    const float shared = std::min(width * height, std::min(a.area, b.area));
    return width > 0.0F && height > 0.0F && shared >= share_ * (a.area + b.area);
  }

 private:
  // Half sizes grow by more than the four float32 roundings that a distance is compared with, each
  // at most 6e-8 of their sum; the share is less by more than those of the products.
  static constexpr double kGrowth = 1.0 + 1e-6;
  static constexpr double kSlack = 1e-5;
  static constexpr double kMinThreshold = 1e-3;  // below, any overlap counts

  float share_ = 0.0F;
};

// The probabilistic IoU. Let S = S1 + S2 be the sum of the covariances, d the vector between the
// centres, and D the Bhattacharyya distance: (d' S^-1 d) / 4 + ln(det S / (4 sqrt(det S1 det S2)))
// / 2. Neither term is negative, and
//   d' S^-1 d >= dx^2 / Sxx, the same for y. The squares of the reaches are a box's shares of 4 Sxx
//   and 4 Syy, times the greatest D that matters.
//   D >= ln((A1 + A2)^2 / (4 A1 A2)) / 2 for areas A, as sqrt(det S) >= sqrt(det S1) + sqrt(det S2)
//   (Minkowski), and sqrt(det) is A / 12.
//
// That holds without rounding; Probiou computes in float32, u = 2^-24. The sides of a known box
// differ by a factor of 32 at most, so the least eigenvalue of S is at least 1/1024 of the sum L of
// the covariances' greatest ones. The error of S is a matrix of a norm below 13u L, which moves its
// eigenvalues by less than 8e-4 of themselves. Every determinant comes out within 2e-3, and so does
// the first term; the argument of the logarithm within 4e-3. Epsilon adds less than 1e-5 of a
// determinant where areas are 1 or more; sides up to 2^17 keep the product of two determinants
// below 2^122, and so from overflow. Hence the computed distance is at least 0.98 of the first term
// less 0.003, and the second bound less 0.003.
class ProbiouBounds {
 public:
  using Method = ProbiouMethod;

  explicit ProbiouBounds(double iou_threshold) {
    const double farthest = ProbiouMethod::MakeLimit(iou_threshold).distance + 0.003;
    reach_ = static_cast<float>(4.0 * farthest / 0.98);
    likeness_ = static_cast<float>(4.0 * std::exp(2.0 * farthest) * (1.0 + 1e-5));
  }

  ProbiouBounds() = default;
  ENDCAP_HOST_DEVICE RotatedBounds Of(const float* xywhr, const GaussianBox& box) const {
    const float low = std::min(std::abs(xywhr[2]), std::abs(xywhr[3]));
    const float high = std::max(std::abs(xywhr[2]), std::abs(xywhr[3]));
    const float area = low * high;
    return {xywhr[0],       xywhr[1], reach_ * box.a,
            reach_ * box.b, area,     area >= 1.0F && high <= 0x1p17F && high <= 32.0F * low};
  }
  // (A1 + A2)^2 / (A1 A2) is at most this where the areas leave a chance.
  float likeness() const noexcept { return likeness_; }
  // Whether two known boxes may have an IoU above the threshold.
  ENDCAP_HOST_DEVICE bool MayExceed(const RotatedBounds& a, const RotatedBounds& b) const {
    const float dx = a.cx - b.cx;
    const float dy = a.cy - b.cy;
    const float both = a.area + b.area;
    return dx * dx <= a.reach_x + b.reach_x && dy * dy <= a.reach_y + b.reach_y &&
           both * both <= a.area * b.area * likeness_;
  }

 private:
  float reach_ = 0.0F;
  float likeness_ = 0.0F;
};

}  // namespace endcap
