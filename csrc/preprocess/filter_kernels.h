#pragma once

#include <cmath>

namespace endcap {

// A resampling kernel: its value at a signed distance from its centre, in samples, and the distance
// beyond which it is 0.
struct FilterKernel {
  double support;
  double (*value)(double distance);
};

inline double BoxValue(double distance) { return distance > -0.5 && distance <= 0.5 ? 1.0 : 0.0; }

inline double TriangleValue(double distance) {
  return std::abs(distance) < 1.0 ? 1.0 - std::abs(distance) : 0.0;
}

// Keys' cubic convolution with a = -0.5.
inline double CubicValue(double distance) {
  constexpr double kA = -0.5;
  const double x = std::abs(distance);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * kA;
  return 0.0;
}

inline constexpr FilterKernel kBoxKernel{0.5, BoxValue};
inline constexpr FilterKernel kTriangleKernel{1.0, TriangleValue};
inline constexpr FilterKernel kCubicKernel{2.0, CubicValue};

}  // namespace endcap
