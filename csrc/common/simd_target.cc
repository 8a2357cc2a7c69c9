#include <hwy/highway.h>

#if HWY_ARCH_X86
#include <cpuid.h>
#elif HWY_ARCH_ARM_A64
#include <sys/auxv.h>
#endif

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

#include "common/fail.h"
#include "common/select_implementation.h"
#include "endcap/implementation.h"

namespace endcap {
namespace {

struct Target {
  int64_t bit;
  std::string_view name;
};

// Later releases of Highway have NEON once more, without the AES instructions, which are not used.
#ifdef HWY_NEON_WITHOUT_AES
constexpr int64_t kNeon = HWY_NEON_WITHOUT_AES;
#else
constexpr int64_t kNeon = HWY_NEON;
#endif

constexpr std::array kTargets = {Target{HWY_AVX3, "avx3"}, Target{HWY_AVX2, "avx2"},
                                 Target{HWY_SSE4, "sse4"}, Target{kNeon, "neon"}};

#if HWY_ARCH_X86
// Whether the CPU has F16C, which __builtin_cpu_supports of Clang 14 does not know.
bool HasF16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

// What each target of Highway allows the compiler to use; its ops/set_macros-inl.h lists it.
int64_t ProbeCpu() {
  int64_t found = 0;
#if HWY_ARCH_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
      __builtin_cpu_supports("aes")) {
    found |= HWY_SSE4;
  }
  if (found != 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && HasF16c()) {
    found |= HWY_AVX2;
  }
  if ((found & HWY_AVX2) != 0 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd")) {
    found |= HWY_AVX3;
  }
#elif HWY_ARCH_ARM_A64
  constexpr unsigned long kAsimd = 1 << 1;  // HWCAP_ASIMD and HWCAP_AES
  constexpr unsigned long kAes = 1 << 3;
  const unsigned long needed = kNeon == HWY_NEON ? kAsimd | kAes : kAsimd;
  if ((getauxval(AT_HWCAP) & needed) == needed) found |= kNeon;
#endif
  return found & HWY_TARGETS;
}

int64_t CpuTargets() {
  static const int64_t targets = ProbeCpu();
  return targets;
}

// The bit of `name`; 0 for "" and for what this CPU does not have.
int64_t FindTargetBit(std::string_view name) {
  for (const Target& target : kTargets) {
    if (target.name == name) return target.bit & CpuTargets();
  }
  return 0;
}

std::string_view EnvironmentValue() {
  static const char* const value = std::getenv("ENDCAP_SIMD_TARGET");
  return value == nullptr ? "" : value;
}

std::atomic<int64_t>& Forced() {
  static std::atomic<int64_t> bit{FindTargetBit(EnvironmentValue())};
  return bit;
}

std::string KnownTargets() {
  std::string known;
  for (const std::string_view target : SimdTargets()) known.append(" ").append(target);
  return known;
}

int64_t ChosenTargets() {
  const int64_t forced = Forced().load();
  return forced == 0 ? CpuTargets() : forced;
}

}  // namespace

std::vector<std::string_view> SimdTargets() {
  std::vector<std::string_view> names;
  for (const Target& target : kTargets) {
    if ((CpuTargets() & target.bit) != 0) names.push_back(target.name);
  }
  return names;
}

std::string_view SimdTarget() {
  for (const Target& target : kTargets) {
    if ((ChosenTargets() & target.bit) != 0) return target.name;
  }
  return "";
}

void ForceSimdTarget(std::string_view name) {
  const int64_t bit = FindTargetBit(name);
  if (bit == 0 && !name.empty()) {
    FailArgument("SIMD target '", name, "' is not one of this machine's:", KnownTargets());
  }
  Forced().store(bit);
  hwy::GetChosenTarget().Update(ChosenTargets());
}

void CheckSimdTargetEnvironment() {
  if (!EnvironmentValue().empty() && FindTargetBit(EnvironmentValue()) == 0) {
    FailArgument("ENDCAP_SIMD_TARGET is '", EnvironmentValue(),
                 "', which is not one of this machine's:", KnownTargets());
  }
}

}  // namespace endcap

// The two functions of Highway's library that HWY_DYNAMIC_DISPATCH calls, so that the library need
// not be carried along.
namespace hwy {

int64_t SupportedTargets() { return endcap::ChosenTargets(); }

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
