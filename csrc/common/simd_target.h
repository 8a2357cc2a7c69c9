#pragma once

#include <string_view>
#include <vector>

namespace endcap {

// The instruction sets that the `simd` paths are compiled for and this CPU has, best first:
// "avx3" (AVX-512 F, VL, DQ, BW, CD), "avx2" (with FMA and F16C), "sse4" (with AES and CLMUL). The
// names are Highway's. Empty where there is none of them, and the `simd` paths are not available.
std::vector<std::string_view> SimdTargets();

// The one that the `simd` paths take; empty without any.
std::string_view SimdTarget();

// Makes the `simd` paths take one of SimdTargets() instead of the best; "" ends that. The
// environment variable ENDCAP_SIMD_TARGET sets the initial value. Throws kInvalidArgument for a
// name that is not in the list. For tests and for measuring.
void ForceSimdTarget(std::string_view name);

}  // namespace endcap
