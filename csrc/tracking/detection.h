#pragma once

#include <algorithm>
#include <cstdint>

namespace endcap {

// Sides of a box, in pixels.
struct Corners {
  double x1, y1, x2, y2;

  double area() const { return (x2 - x1) * (y2 - y1); }
};

inline double Iou(const Corners& a, const Corners& b) {
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (!(width > 0.0) || !(height > 0.0)) return 0.0;
  const double common = width * height;
  return common / (a.area() + b.area() - common);
}

// Comparisons of single precision, as NumPy makes them of float32 arrays.
inline double RoundToFloat(double value) { return static_cast<float>(value); }
inline bool AtLeast(double value, double threshold) {
  return static_cast<float>(value) >= static_cast<float>(threshold);
}

// A detection of the frame; its box has an area.
struct Detection {
  Corners corners;
  double score;
  int32_t class_id;
  int32_t index;  // in the caller's arrays
};

}  // namespace endcap
