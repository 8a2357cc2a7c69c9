#pragma once

#include "common/elementary_functions.h"
#include "common/host_device.h"

namespace endcap {

// A rotated box as its exact IoU needs it. The area is 0 without a positive width and height, and
// NaN where a number of the box is not finite; such boxes overlap nothing.
struct RotatedBox {
  double cx, cy;
  double half_w, half_h;
  double cos, sin;                      // of the angle
  double half_extent_x, half_extent_y;  // of the axis-aligned bounding box
  double area;
};

namespace rotated {

ENDCAP_HOST_DEVICE inline double Least(double a, double b) { return a < b ? a : b; }
ENDCAP_HOST_DEVICE inline double Greatest(double a, double b) { return a > b ? a : b; }
ENDCAP_HOST_DEVICE inline double Size(double x) { return x < 0.0 ? -x : x; }
ENDCAP_HOST_DEVICE inline double Clip(double x, double limit) {
  return x < -limit ? -limit : (x > limit ? limit : x);
}

// The mean of y clipped to [-limit, limit], for y spread evenly between two values.
ENDCAP_HOST_DEVICE inline double MeanClipped(double y0, double y1, double limit) {
  const double low = Least(y0, y1);
  const double high = Greatest(y0, y1);
  const double clipped_low = Clip(low, limit);
  const double clipped_high = Clip(high, limit);
  if (!(high - low > 0.0)) return clipped_low;
  const double above = Greatest(high - Greatest(low, limit), 0.0);
  const double below = Greatest(Least(high, -limit) - low, 0.0);
  const double inside = (clipped_high - clipped_low) * 0.5 * (clipped_low + clipped_high);
  return (inside + (above - below) * limit) / (high - low);
}

// The integral of y dx along the segment from (x0, y0) to (x1, y1), over x in [-half_w, half_w] and
// with y clipped to [-half_h, half_h].
ENDCAP_HOST_DEVICE inline double ClippedIntegral(double x0, double y0, double x1, double y1,
                                                 double half_w, double half_h) {
  const double from = Clip(x0, half_w);
  const double to = Clip(x1, half_w);
  if (from == to) return 0.0;
  const double slope = (y1 - y0) / (x1 - x0);
  return (to - from) * MeanClipped(y0 + (from - x0) * slope, y0 + (to - x0) * slope, half_h);
}

// Where a box lies in the frame of another: there the other is axis-aligned, with its centre at 0.
struct Pose {
  double cx, cy, cos, sin;
};

ENDCAP_HOST_DEVICE inline Pose PoseIn(const RotatedBox& frame, const RotatedBox& box) {
  // The difference of the centres comes first, so that boxes far from 0 lose nothing.
  const double dx = box.cx - frame.cx;
  const double dy = box.cy - frame.cy;
  return {dx * frame.cos + dy * frame.sin, dy * frame.cos - dx * frame.sin,
          box.cos * frame.cos + box.sin * frame.sin, box.sin * frame.cos - box.cos * frame.sin};
}

// How far two intervals overlap, given by half of their sizes and the distance of their centres.
ENDCAP_HOST_DEVICE inline double Overlap(double half_a, double half_b, double distance) {
  return Least(half_a + half_b - Size(distance), 2.0 * Least(half_a, half_b));
}

// The area that two boxes share, by Green's theorem: the border of `box`, clipped to `frame`.
ENDCAP_HOST_DEVICE inline double ClippedArea(const RotatedBox& frame, const RotatedBox& box,
                                             const Pose& pose) {
  const double wx = box.half_w * pose.cos;
  const double wy = box.half_w * pose.sin;
  const double hx = -box.half_h * pose.sin;
  const double hy = box.half_h * pose.cos;
  const double x[4] = {pose.cx + wx + hx, pose.cx - wx + hx, pose.cx - wx - hx, pose.cx + wx - hx};
  const double y[4] = {pose.cy + wy + hy, pose.cy - wy + hy, pose.cy - wy - hy, pose.cy + wy - hy};
  double integral = 0.0;
  for (int i = 0; i < 4; ++i) {
    const int next = (i + 1) % 4;
    integral += ClippedIntegral(x[i], y[i], x[next], y[next], frame.half_w, frame.half_h);
  }
  return -integral;  // the corners go from x to y
}

// Which of two boxes gives the frame: the same one in both orders of the two.
ENDCAP_HOST_DEVICE inline bool GivesFrame(const RotatedBox& a, const RotatedBox& b) {
  if (a.half_w != b.half_w) return a.half_w > b.half_w;
  if (a.half_h != b.half_h) return a.half_h > b.half_h;
  if (a.cx != b.cx) return a.cx > b.cx;
  if (a.cy != b.cy) return a.cy > b.cy;
  if (a.cos != b.cos) return a.cos > b.cos;
  return a.sin >= b.sin;
}

ENDCAP_HOST_DEVICE inline float ComputeIou(double shared, const RotatedBox& a,
                                           const RotatedBox& b) {
  return static_cast<float>(shared / (a.area + b.area - shared));
}

// Both boxes have an area. Gives the IoU, or any number up to `limit` where the bounds of the
// shared area say that the IoU is not greater. No rounding is in the way of that: the shared area
// is clipped to its bounds, and ComputeIou does not fall when it grows.
ENDCAP_HOST_DEVICE inline float IouUnlessBelow(const RotatedBox& first, const RotatedBox& second,
                                               float limit) {
  const bool in_order = GivesFrame(first, second);
  const RotatedBox& a = in_order ? first : second;
  const RotatedBox& b = in_order ? second : first;
  const double overlap_x = Overlap(a.half_extent_x, b.half_extent_x, b.cx - a.cx);
  const double overlap_y = Overlap(a.half_extent_y, b.half_extent_y, b.cy - a.cy);
  if (!(overlap_x > 0.0 && overlap_y > 0.0)) return 0.0F;
  double bound = Least(overlap_x * overlap_y, Least(a.area, b.area));
  if (ComputeIou(bound, a, b) <= limit) return 0.0F;
  const Pose pose = PoseIn(a, b);
  const double cos = Size(pose.cos);
  const double sin = Size(pose.sin);
  const double overlap_w = Overlap(a.half_w, b.half_w * cos + b.half_h * sin, pose.cx);
  const double overlap_h = Overlap(a.half_h, b.half_w * sin + b.half_h * cos, pose.cy);
  if (!(overlap_w > 0.0 && overlap_h > 0.0)) return 0.0F;
  bound = Least(bound, overlap_w * overlap_h);
  if (ComputeIou(bound, a, b) <= limit) return 0.0F;
  return ComputeIou(Greatest(Least(ClippedArea(a, b, pose), bound), 0.0), a, b);
}

}  // namespace rotated

// xywhr float32 [5]: centre, width, height, angle.
ENDCAP_HOST_DEVICE inline RotatedBox MakeRotatedBox(const float* xywhr) {
  const auto [cos, sin] = ComputeCosSin(xywhr[4]);
  const double cx = xywhr[0];
  const double cy = xywhr[1];
  const double w = xywhr[2];
  const double h = xywhr[3];
  const double zero_or_nan = 0.0 * (cx + cy + w + h + cos);
  return {cx,
          cy,
          0.5 * w,
          0.5 * h,
          cos,
          sin,
          0.5 * (rotated::Size(w * cos) + rotated::Size(h * sin)),
          0.5 * (rotated::Size(w * sin) + rotated::Size(h * cos)),
          (w > 0.0 && h > 0.0 ? w * h : 0.0) + zero_or_nan};
}

// Exact intersection over union, float64 throughout and rounded to float32 at the end; the same in
// both orders of the boxes. 0 where one box has no area, NaN where neither has one or a number is
// not finite.
ENDCAP_HOST_DEVICE inline float RotatedIou(const RotatedBox& a, const RotatedBox& b) {
  if (!(a.area > 0.0 && b.area > 0.0)) return static_cast<float>(0.0 / (a.area + b.area));
  return rotated::IouUnlessBelow(a, b, -1.0F);
}

// Whether RotatedIou > limit, for a limit that is not negative; most pairs need no clipping.
ENDCAP_HOST_DEVICE inline bool RotatedIouExceeds(const RotatedBox& a, const RotatedBox& b,
                                                 float limit) {
  return a.area > 0.0 && b.area > 0.0 && rotated::IouUnlessBelow(a, b, limit) > limit;
}

}  // namespace endcap
