#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "common/host_device.h"

namespace endcap {

// ln(x) to a relative error below 1e-12, from additions, multiplications and divisions alone, so
// that the host and a device give the same number. x is not subnormal; infinity counts as 2^1024.
// The logarithm of 0 is minus infinity, that of a negative number and of NaN is NaN. Not below 0
// for x >= 1.
ENDCAP_HOST_DEVICE inline double Logarithm(double x) {
  constexpr double kLn2 = 0.6931471805599453;
  constexpr double kSqrt2 = 1.4142135623730951;
  if (!(x > 0.0)) {
    return x < 0.0 ? std::numeric_limits<double>::quiet_NaN()
                   : x - std::numeric_limits<double>::infinity();
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int>(bits >> 52) - 1023;
  auto m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFULL) | 0x3FF0000000000000ULL);
  if (m >= kSqrt2) {  // from [1, 2) to [sqrt(1/2), sqrt(2))
    m *= 0.5;
    ++exponent;
  }
  // ln(m) = 2 artanh(s), by its Taylor series; s is at most 0.172 in size.
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  const double first = 1.0 + s2 * (1.0 / 3 + s2 * (1.0 / 5 + s2 * (1.0 / 7)));
  const double rest = 1.0 / 9 + s2 * (1.0 / 11 + s2 * (1.0 / 13 + s2 * (1.0 / 15)));
  const double series = first + s2 * s2 * (s2 * s2) * rest;
  return exponent * kLn2 + 2.0 * s * series;
}

}  // namespace endcap
