#pragma once

#include <string>

#include "common/simd_target.h"
#include "endcap/implementation.h"

namespace endcap::testing {

// Calls run() with the scalar path, then once with the simd path on every target of this machine,
// and gives each of the latter results to compare(scalar_result, simd_result, target).
template <typename Run, typename Compare>
void CompareTargetsWithScalar(Run run, Compare compare) {
  ForceImplementation("scalar");
  const auto expected = run();
  if (!SimdTargets().empty()) ForceImplementation("simd");
  for (const std::string_view target : SimdTargets()) {
    ForceSimdTarget(target);
    compare(expected, run(), std::string(target));
  }
  ForceSimdTarget("");
  ForceImplementation("auto");
}

}  // namespace endcap::testing
