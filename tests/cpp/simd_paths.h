#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "endcap/implementation.h"

namespace endcap::testing {

inline bool RanLast(Stage stage, Path path) {
  for (const Implementation& implementation : Implementations()) {
    if (implementation.stage == stage && implementation.path == path)
      return implementation.ran_last;
  }
  return false;
}

// Calls run() with the scalar path, then once with the simd path on every target of this machine,
// and gives each of the latter results to compare(scalar_result, simd_result, target). Fails when
// `stage` did not take the path.
template <typename Run, typename Compare>
void CompareTargetsWithScalar(Stage stage, Run run, Compare compare) {
  ForceImplementation("scalar");
  const auto expected = run();
  EXPECT_TRUE(RanLast(stage, Path::kScalar));
  if (!SimdTargets().empty()) ForceImplementation("simd");
  for (const std::string_view target : SimdTargets()) {
    ForceSimdTarget(target);
    const auto result = run();
    EXPECT_TRUE(RanLast(stage, Path::kSimd));
    compare(expected, result, std::string(target));
  }
  ForceSimdTarget("");
  ForceImplementation("auto");
}

}  // namespace endcap::testing
