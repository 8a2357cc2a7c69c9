#include "endcap/implementation.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>

#include "common/fail.h"
#include "common/select_implementation.h"
#include "endcap/cuda.h"

namespace endcap {
namespace {

constexpr int kAuto = -1;
constexpr int kUnknown = -2;

struct Entry {
  Stage stage;
  Implementation implementation;
  std::string_view name;
};

// What there is. Best implementation last: SelectImplementation takes the last available one of a
// stage that is for the CPU.
constexpr std::array kTable = {
    Entry{Stage::kDecode, Implementation::kScalar, "decode_scalar"},
    Entry{Stage::kDecode, Implementation::kSimd, "decode_simd"},
    Entry{Stage::kDecode, Implementation::kCuda, "decode_cuda"},
    Entry{Stage::kPreprocess, Implementation::kScalar, "preprocess_scalar"},
    Entry{Stage::kPreprocess, Implementation::kSimd, "preprocess_simd"},
    Entry{Stage::kPreprocess, Implementation::kCuda, "preprocess_cuda"},
    Entry{Stage::kBoxDecode, Implementation::kScalar, "box_decode_scalar"},
    Entry{Stage::kBoxDecode, Implementation::kSimd, "box_decode_simd"},
    Entry{Stage::kBoxDecode, Implementation::kCuda, "box_decode_cuda"},
    Entry{Stage::kNms, Implementation::kScalar, "nms_scalar"},
    Entry{Stage::kNms, Implementation::kSimd, "nms_simd"},
    Entry{Stage::kNms, Implementation::kCuda, "nms_cuda"},
    Entry{Stage::kMasks, Implementation::kScalar, "masks_scalar"},
    Entry{Stage::kMasks, Implementation::kSimd, "masks_simd"},
};

// Why this machine cannot take an implementation; empty when it can.
std::string_view ReasonAgainst(Implementation implementation) {
  if (implementation == Implementation::kSimd && SimdTarget().empty())
    return "this CPU has no SSE4.2 with AES";
  if (implementation == Implementation::kCuda) return DescribeCuda().reason;
  return "";
}

std::array<std::atomic<int>, kStageCount> last_implementation{kAuto, kAuto, kAuto, kAuto, kAuto};

int ImplementationNumber(std::string_view name) {
  if (name.empty() || name == "auto") return kAuto;
  for (const Implementation implementation :
       {Implementation::kScalar, Implementation::kSimd, Implementation::kCuda}) {
    if (name == ImplementationName(implementation)) return static_cast<int>(implementation);
  }
  return kUnknown;
}

const char* EnvironmentValue() {
  const char* value = std::getenv("ENDCAP_FORCE_IMPLEMENTATION");
  return value == nullptr ? "" : value;
}

std::atomic<int>& ForcedImplementation() {
  static std::atomic<int> forced{ImplementationNumber(EnvironmentValue())};
  return forced;
}

}  // namespace

std::string_view StageName(Stage stage) noexcept {
  constexpr std::array<std::string_view, kStageCount> kNames = {"decode", "preprocess",
                                                                "box_decode", "nms", "masks"};
  return kNames[static_cast<size_t>(stage)];
}

std::string_view ImplementationName(Implementation implementation) noexcept {
  constexpr std::array<std::string_view, 3> kNames = {"scalar", "simd", "cuda"};
  return kNames[static_cast<size_t>(implementation)];
}

std::vector<ImplementationInfo> ListImplementations() {
  std::vector<ImplementationInfo> list;
  for (const Entry& entry : kTable) {
    const std::string_view reason = ReasonAgainst(entry.implementation);
    const int last = last_implementation[static_cast<size_t>(entry.stage)].load();
    list.push_back({entry.stage, entry.implementation, entry.name, reason.empty(), reason,
                    last == static_cast<int>(entry.implementation)});
  }
  return list;
}

void ForceImplementation(std::string_view implementation_name) {
  const int implementation = ImplementationNumber(implementation_name);
  if (implementation == kUnknown) {
    FailArgument("implementation '", implementation_name,
                 "' is unknown: give scalar, simd, cuda or auto");
  }
  ForcedImplementation().store(implementation);
}

Implementation SelectImplementation(Stage stage) {
  const int forced = ForcedImplementation().load();
  if (forced == kUnknown) {
    FailArgument("ENDCAP_FORCE_IMPLEMENTATION is '", EnvironmentValue(),
                 "': give scalar, simd, cuda or auto");
  }
  std::optional<Implementation> chosen;
  for (const Entry& entry : kTable) {
    const bool wanted = forced == kAuto || forced == static_cast<int>(entry.implementation);
    if (entry.stage != stage || entry.implementation == Implementation::kCuda || !wanted) continue;
    if (ReasonAgainst(entry.implementation).empty()) chosen = entry.implementation;
  }
  if (forced == static_cast<int>(Implementation::kCuda)) {
    Fail(ErrorCode::kUnsupported, "the implementation 'cuda' is forced, which stage ",
         StageName(stage),
         " cannot take on the CPU: give device=\"cuda\", or force no implementation");
  }
  if (!chosen) {
    // Only an implementation that was forced can be missing: every stage has the scalar one.
    // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
    const Implementation missing = static_cast<Implementation>(forced);
    Fail(ErrorCode::kUnsupported, "stage ", StageName(stage), " has no implementation '",
         ImplementationName(missing),
         "' in this build; endcap.implementations() lists those there are");
  }
  if (*chosen == Implementation::kSimd) CheckSimdTargetEnvironment();
  NoteRun(stage, *chosen);
  return *chosen;
}

void NoteRun(Stage stage, Implementation implementation) noexcept {
  last_implementation[static_cast<size_t>(stage)].store(static_cast<int>(implementation));
}

}  // namespace endcap
