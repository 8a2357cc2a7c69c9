#pragma once

#include <bit>
#include <cstdint>

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

}  // namespace endcap
