#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace endcap {

enum class Stage : int { kDecode, kPreprocess, kBoxDecode, kNms, kMasks };
inline constexpr int kStageCount = 5;

enum class Implementation : int { kScalar, kSimd, kCuda };

// One way of doing one stage. `name` is stage and implementation, for example "nms_scalar".
struct ImplementationInfo {
  Stage stage;
  Implementation implementation;
  std::string_view name;
  bool available = false;   // on this machine
  std::string_view reason;  // why it is not available; empty when it is
  bool ran_last = false;    // the stage's most recent run in this process took it
};

std::string_view StageName(Stage stage) noexcept;
std::string_view ImplementationName(Implementation implementation) noexcept;

// Every implementation, stages in the order of the data's way. The `cuda` ones are for data on a
// GPU; whether they are available is what DescribeCuda says, which starts the driver.
std::vector<ImplementationInfo> ListImplementations();

// Forces every stage onto one implementation ("scalar", "simd", "cuda"); "" or "auto" ends that. A
// stage that cannot take the forced implementation throws kUnsupported when it runs, and so does
// every run on the CPU where "cuda" is forced; nothing falls back silently. The environment
// variable ENDCAP_FORCE_IMPLEMENTATION sets the initial value. Throws kInvalidArgument for any
// other name. Thread-safe.
void ForceImplementation(std::string_view implementation_name);

// The instruction sets that the `simd` implementations are compiled for and this CPU has, best
// first: "avx3" (AVX-512 F, VL, DQ, BW, CD), "avx2" (with FMA and F16C), "sse4" (with AES and
// CLMUL). The names are Highway's. Empty where there is none of them, and the `simd`
// implementations are not available.
std::vector<std::string_view> SimdTargets();

// The one that the `simd` implementations take; empty without any.
std::string_view SimdTarget();

// Makes the `simd` implementations take one of SimdTargets() instead of the best; "" ends that. The
// environment variable ENDCAP_SIMD_TARGET sets the initial value; a wrong one there makes the
// `simd` implementations throw kInvalidArgument. Throws kInvalidArgument for a name that is not in
// the list. For tests and for measuring.
void ForceSimdTarget(std::string_view name);

}  // namespace endcap
