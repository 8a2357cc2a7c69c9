#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "endcap/implementation.h"

namespace endcap::testing {

inline bool RanLast(Stage stage, Implementation implementation) {
  for (const ImplementationInfo& info : ListImplementations()) {
    if (info.stage == stage && info.implementation == implementation) return info.ran_last;
  }
  return false;
}

// Calls run() with the scalar implementation, then once with the simd implementation on every
// target of this machine, and gives each of the latter results to compare(scalar_result,
// simd_result, target). Fails when `stage` did not take the implementation.
template <typename Run, typename Compare>
void CompareTargetsWithScalar(Stage stage, Run run, Compare compare) {
  ForceImplementation("scalar");
  const auto expected = run();
  EXPECT_TRUE(RanLast(stage, Implementation::kScalar));
  if (!SimdTargets().empty()) ForceImplementation("simd");
  for (const std::string_view target : SimdTargets()) {
    ForceSimdTarget(target);
    const auto result = run();
    EXPECT_TRUE(RanLast(stage, Implementation::kSimd));
    compare(expected, result, std::string(target));
  }
  ForceSimdTarget("");
  ForceImplementation("auto");
}

}  // namespace endcap::testing
