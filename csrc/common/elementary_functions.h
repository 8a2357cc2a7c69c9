#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/host_device.h"

namespace endcap {

// e^x to a relative error below 1e-12, from additions and multiplications alone, so that the host
// and a device give the same number. x is not NaN; beyond [-708, 709] it counts as that end.
ENDCAP_HOST_DEVICE inline double Exponential(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2 = 0.6931471805599453;
  constexpr double kRounder = 0x1.8p52;  // a sum with it has its nearest integer in the low bits
  x = x < -708.0 ? -708.0 : (x > 709.0 ? 709.0 : x);
  const double shifted = x * kLog2E + kRounder;
  const double r = x - (shifted - kRounder) * kLn2;  // at most ln(2)/2 in size
  const double r2 = r * r;
  // Taylor's series of cosh and sinh(r)/r, up to r^10.
  const double even =
      1.0 + r2 * (1.0 / 2 +
                  r2 * (1.0 / 24 + r2 * (1.0 / 720 + r2 * (1.0 / 40320 + r2 * (1.0 / 3628800)))));
  const double odd =
      1.0 + r2 * (1.0 / 6 + r2 * (1.0 / 120 + r2 * (1.0 / 5040 + r2 * (1.0 / 362880))));
  const uint64_t exponent = std::bit_cast<uint64_t>(shifted) + 1023;  // above it, bits that leave
  return (even + r * odd) * std::bit_cast<double>(exponent << 52);
}

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

struct CosSin {
  double cos, sin;
};

namespace trigonometry {

inline constexpr double kHalfPi = 1.5707963267948966;

// A float32 above pi/4, as quarter turns [0, 4) that are left of it and an angle in [-pi/4, pi/4].
struct Reduced {
  uint32_t quarters;
  double angle;
};

// After Payne and Hanek (1983): of the product with 2/pi, only the bits below whole turns count,
// and a float's 24 bits need no more than 96 of 2/pi to have the fraction to 2^-62.
ENDCAP_HOST_DEVICE inline Reduced Reduce(uint32_t bits) {
  // 32 zeros, then the binary places of 2/pi.
  static constexpr uint32_t kPlaces[8] = {0x00000000U, 0xA2F9836EU, 0x4E441529U, 0xFC2757D1U,
                                          0xF534DDC0U, 0xDB629599U, 0x3C439041U, 0xFE5163ABU};
  const uint32_t first = (bits >> 23) - 120;  // the places before make whole turns
  const uint64_t mantissa = (bits & 0x7FFFFFU) | 0x800000U;
  uint32_t words[3];
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t at = first / 32 + i;
    const uint64_t both = uint64_t{kPlaces[at]} << 32 | kPlaces[at + 1];
    words[i] = static_cast<uint32_t>(both >> (32 - first % 32));
  }
  const uint64_t middle = mantissa * words[1] + (mantissa * words[2] >> 32);
  const uint64_t turns = (mantissa * words[0] << 32) + middle;  // in 2^-62 of a quarter
  const uint64_t quarters = (turns + (uint64_t{1} << 61)) >> 62;
  const auto rest = static_cast<int64_t>(turns - (quarters << 62));
  return {static_cast<uint32_t>(quarters), static_cast<double>(rest) * (0x1p-62 * kHalfPi)};
}

}  // namespace trigonometry

// Cosine and sine of any angle in radians to an error below 5e-16, from additions and
// multiplications alone, so that the host and a device give the same numbers. NaN for an angle that
// is not finite.
ENDCAP_HOST_DEVICE inline CosSin ComputeCosSin(float angle) {
  const auto bits = std::bit_cast<uint32_t>(angle);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude >= 0x7F800000U) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    return {kNan, kNan};
  }
  constexpr uint32_t kBelowQuarterPi = 0x3F490FDA;  // the greatest float below pi/4
  const auto [quarters, r] = magnitude > kBelowQuarterPi
                                 ? trigonometry::Reduce(magnitude)
                                 : trigonometry::Reduced{0, std::bit_cast<float>(magnitude)};
  // Taylor's series, up to r^18.
  const double r2 = r * r;
  double even = 1.0 / 20922789888000.0 + r2 * (-1.0 / 6402373705728000.0);
  even = 1.0 / 479001600.0 + r2 * (-1.0 / 87178291200.0 + r2 * even);
  even = 1.0 / 40320.0 + r2 * (-1.0 / 3628800.0 + r2 * even);
  even = 1.0 / 24.0 + r2 * (-1.0 / 720.0 + r2 * even);
  double odd = -1.0 / 1307674368000.0 + r2 * (1.0 / 355687428096000.0);
  odd = -1.0 / 39916800.0 + r2 * (1.0 / 6227020800.0 + r2 * odd);
  odd = -1.0 / 5040.0 + r2 * (1.0 / 362880.0 + r2 * odd);
  odd = -1.0 / 6.0 + r2 * (1.0 / 120.0 + r2 * odd);
  const double cos = 1.0 - r2 * (0.5 - r2 * even);
  const double sin = r + r * (r2 * odd);
  const bool swapped = (quarters & 1U) != 0;
  const double x = swapped ? sin : cos;
  const double y = swapped ? cos : sin;
  const bool left = quarters == 1 || quarters == 2;
  const bool below = (quarters >= 2) != (bits >> 31 != 0);
  return {left ? -x : x, below ? -y : y};
}

// The angle of the vector (x, y), x > 0, in radians to a relative error below 1e-14: between -pi/2
// and pi/2. Neither number's square leaves the range of double.
ENDCAP_HOST_DEVICE inline double ArcTangent(double y, double x) {
  double t = y / (x + std::sqrt(x * x + y * y));  // the tangent of half of it
  t = t / (1.0 + std::sqrt(1.0 + t * t));
  t = t / (1.0 + std::sqrt(1.0 + t * t));  // of an eighth, at most 0.2 in size
  const double t2 = t * t;
  double series = 1.0 / 17.0 + t2 * (-1.0 / 19.0);
  series = 1.0 / 13.0 + t2 * (-1.0 / 15.0 + t2 * series);
  series = 1.0 / 9.0 + t2 * (-1.0 / 11.0 + t2 * series);
  series = 1.0 / 5.0 + t2 * (-1.0 / 7.0 + t2 * series);
  return 8.0 * (t + t * (t2 * (-1.0 / 3.0 + t2 * series)));
}

}  // namespace endcap
