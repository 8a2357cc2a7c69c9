#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace endcap {

enum class Stage : int { kDecode, kPreprocess, kBoxDecode, kNms, kMasks };
inline constexpr int kStageCount = 5;

enum class Implementation : int { kScalar, kSimd, kCuda };

// One implementation of one stage. `name` is stage and implementation, for example "nms_scalar".
struct ImplementationInfo {
  Stage stage;
  Implementation implementation;
  std::string_view name;
  bool available = false;   // on this machine
  std::string_view reason;  // why it is not available; empty if it is
  bool ran_last = false;    // the stage's most recent run in this process took it
};

std::string_view StageName(Stage stage) noexcept;
std::string_view ImplementationName(Implementation implementation) noexcept;

// Returns every implementation, stages in the order of the data flow. The `cuda` ones are for data
// on a GPU and available as DescribeCuda reports, which initialises the driver. Thread-safe.
std::vector<ImplementationInfo> ListImplementations();

// Forces one implementation ("scalar", "simd", "cuda") on every stage; "" or "auto" ends that. A
// stage without the forced implementation throws kUnsupported when it runs, and so does every run
// on the CPU while "cuda" is forced; nothing falls back silently. The environment variable
// ENDCAP_FORCE_IMPLEMENTATION sets the initial value. Throws kInvalidArgument for any other name.
// Thread-safe.
void ForceImplementation(std::string_view implementation_name);

// Returns the instruction sets that the `simd` implementations are compiled for and this CPU has,
// best first: "avx3" (AVX-512 F, VL, DQ, BW, CD), "avx2" (with FMA and F16C), "sse4" (with AES and
// CLMUL); on arm64 "neon" (with AES). The names are Highway's. Empty where the `simd`
// implementations are not available.
std::vector<std::string_view> SimdTargets();

// Returns the one in use; empty where there is none.
std::string_view SimdTarget();

// Forces one of SimdTargets() instead of the best; "" ends that. The environment variable
// ENDCAP_SIMD_TARGET sets the initial value; with an invalid one the `simd` implementations throw
// kInvalidArgument. Throws kInvalidArgument for a name that is not in the list. For tests and
// benchmarks. Thread-safe.
void ForceSimdTarget(std::string_view name);

}  // namespace endcap
