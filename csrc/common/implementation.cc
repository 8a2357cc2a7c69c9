#include "endcap/implementation.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>

#include "common/fail.h"
#include "common/path_select.h"
#include "endcap/cuda.h"

namespace endcap {
namespace {

constexpr int kAuto = -1;
constexpr int kUnknown = -2;

struct Entry {
  Stage stage;
  Path path;
  std::string_view name;
};

// What there is. Best path last: SelectPath takes the last available one of a stage that is for the
// CPU.
constexpr std::array kTable = {
    Entry{Stage::kDecode, Path::kScalar, "decode_scalar"},
    Entry{Stage::kDecode, Path::kSimd, "decode_simd"},
    Entry{Stage::kDecode, Path::kCuda, "decode_cuda"},
    Entry{Stage::kPreprocess, Path::kScalar, "preprocess_scalar"},
    Entry{Stage::kPreprocess, Path::kSimd, "preprocess_simd"},
    Entry{Stage::kPreprocess, Path::kCuda, "preprocess_cuda"},
    Entry{Stage::kBoxDecode, Path::kScalar, "box_decode_scalar"},
    Entry{Stage::kBoxDecode, Path::kSimd, "box_decode_simd"},
    Entry{Stage::kBoxDecode, Path::kCuda, "box_decode_cuda"},
    Entry{Stage::kNms, Path::kScalar, "nms_scalar"},
    Entry{Stage::kNms, Path::kSimd, "nms_simd"},
    Entry{Stage::kNms, Path::kCuda, "nms_cuda"},
    Entry{Stage::kMasks, Path::kScalar, "masks_scalar"},
    Entry{Stage::kMasks, Path::kSimd, "masks_simd"},
};

// Why this machine cannot take a path; empty when it can.
std::string_view ReasonAgainst(Path path) {
  if (path == Path::kSimd && SimdTarget().empty()) return "this CPU has no SSE4.2 with AES";
  if (path == Path::kCuda) return DescribeCuda().reason;
  return "";
}

std::array<std::atomic<int>, kStageCount> last_path{kAuto, kAuto, kAuto, kAuto, kAuto};

int PathNumber(std::string_view name) {
  if (name.empty() || name == "auto") return kAuto;
  for (const Path path : {Path::kScalar, Path::kSimd, Path::kCuda}) {
    if (name == PathName(path)) return static_cast<int>(path);
  }
  return kUnknown;
}

const char* EnvironmentValue() {
  const char* value = std::getenv("ENDCAP_FORCE_IMPLEMENTATION");
  return value == nullptr ? "" : value;
}

std::atomic<int>& ForcedPath() {
  static std::atomic<int> forced{PathNumber(EnvironmentValue())};
  return forced;
}

}  // namespace

std::string_view StageName(Stage stage) noexcept {
  constexpr std::array<std::string_view, kStageCount> kNames = {"decode", "preprocess",
                                                                "box_decode", "nms", "masks"};
  return kNames[static_cast<size_t>(stage)];
}

std::string_view PathName(Path path) noexcept {
  constexpr std::array<std::string_view, 3> kNames = {"scalar", "simd", "cuda"};
  return kNames[static_cast<size_t>(path)];
}

std::vector<Implementation> Implementations() {
  std::vector<Implementation> list;
  for (const Entry& entry : kTable) {
    const std::string_view reason = ReasonAgainst(entry.path);
    const int last = last_path[static_cast<size_t>(entry.stage)].load();
    list.push_back({entry.stage, entry.path, entry.name, reason.empty(), reason,
                    last == static_cast<int>(entry.path)});
  }
  return list;
}

void ForceImplementation(std::string_view path_name) {
  const int path = PathNumber(path_name);
  if (path == kUnknown) {
    FailArgument("implementation '", path_name, "' is unknown: give scalar, simd, cuda or auto");
  }
  ForcedPath().store(path);
}

Path SelectPath(Stage stage) {
  const int forced = ForcedPath().load();
  if (forced == kUnknown) {
    FailArgument("ENDCAP_FORCE_IMPLEMENTATION is '", EnvironmentValue(),
                 "': give scalar, simd, cuda or auto");
  }
  std::optional<Path> chosen;
  for (const Entry& entry : kTable) {
    const bool wanted = forced == kAuto || forced == static_cast<int>(entry.path);
    if (entry.stage != stage || entry.path == Path::kCuda || !wanted) continue;
    if (ReasonAgainst(entry.path).empty()) chosen = entry.path;
  }
  if (forced == static_cast<int>(Path::kCuda)) {
    Fail(ErrorCode::kUnsupported, "the path 'cuda' is forced, which stage ", StageName(stage),
         " cannot take on the CPU: give device=\"cuda\", or force no path");
  }
  if (!chosen) {
    // Only a path that was forced can be missing: every stage has the scalar one.
    // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
    const Path missing = static_cast<Path>(forced);
    Fail(ErrorCode::kUnsupported, "stage ", StageName(stage), " has no path '", PathName(missing),
         "' in this build; endcap.implementations() lists those there are");
  }
  if (*chosen == Path::kSimd) CheckSimdTargetEnvironment();
  NoteRun(stage, *chosen);
  return *chosen;
}

void NoteRun(Stage stage, Path path) noexcept {
  last_path[static_cast<size_t>(stage)].store(static_cast<int>(path));
}

}  // namespace endcap
