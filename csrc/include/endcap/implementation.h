#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace endcap {

enum class Stage : int { kDecode, kPreprocess, kBoxDecode, kNms };
inline constexpr int kStageCount = 4;

enum class Path : int { kScalar, kSimd, kCuda };

// One way of doing one stage. `name` is stage and path, for example "nms_scalar".
struct Implementation {
  Stage stage;
  Path path;
  std::string_view name;
  bool available = false;   // on this machine
  std::string_view reason;  // why it is not available; empty when it is
  bool ran_last = false;    // the stage's most recent run in this process took it
};

std::string_view StageName(Stage stage) noexcept;
std::string_view PathName(Path path) noexcept;

// Every implementation of this build, stages in the order of the data's way.
std::vector<Implementation> Implementations();

// Forces every stage onto one path ("scalar", "simd", "cuda"); "" or "auto" ends that. A stage
// that cannot take the forced path throws kUnsupported when it runs; nothing falls back silently.
// The environment variable ENDCAP_FORCE_IMPLEMENTATION sets the initial value.
// Throws kInvalidArgument for any other name. Thread-safe.
void ForceImplementation(std::string_view path_name);

}  // namespace endcap
