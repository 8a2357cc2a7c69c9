#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "endcap/cuda.h"
#include "endcap/error.h"
#include "endcap/implementation.h"
#include "fuzz_input.h"

namespace endcap::fuzz {

// Ends the process with a reason: two results that must be equal are not, or a promise is broken.
template <typename... Parts>
[[noreturn]] void Disagree(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  std::fprintf(stderr, "endcap fuzz: %s\n", text.str().c_str());
  __builtin_trap();
}

template <typename... Parts>
void Require(bool holds, const Parts&... parts) {
  if (!holds) Disagree(parts...);
}

// The outcome of a call: the bytes of its results, or its error.
class Outcome {
 public:
  ErrorCode code = ErrorCode::kOk;
  std::string message;

  bool ok() const noexcept { return code == ErrorCode::kOk; }

  template <typename T>
  void Add(const T* values, size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t begin = bytes_.size();
    bytes_.resize(begin + count * sizeof(T));
    if (count > 0) std::memcpy(bytes_.data() + begin, values, count * sizeof(T));
  }
  template <typename T>
  void Add(const std::vector<T>& values) {
    Add(values.data(), values.size());
  }
  void Add(std::string_view text) { Add(text.data(), text.size()); }
  void Add(int64_t value) { Add(&value, 1); }
  // Of a damaged file each decoder reports the damage that it meets first.
  void Add(const ItemStatus& status) {
    Add(static_cast<int64_t>(status.code));
    if (status.code != ErrorCode::kCorruptImage) Add(std::string_view(status.message));
  }

  const std::vector<uint8_t>& bytes() const noexcept { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// Calls run(outcome), which adds its results.
template <typename Run>
Outcome Capture(Run run) {
  Outcome outcome;
  try {
    run(outcome);
  } catch (const Error& error) {
    outcome = {};
    outcome.code = error.code();
    outcome.message = error.what();
  }
  return outcome;
}

inline void RequireEqual(const Outcome& expected, const Outcome& actual, std::string_view what) {
  const bool damaged = expected.code == ErrorCode::kCorruptImage;  // as of Outcome::Add
  if (expected.code != actual.code || (!damaged && expected.message != actual.message)) {
    Disagree(what, ": error '", expected.message, "' against '", actual.message, "'");
  }
  if (expected.bytes() == actual.bytes()) return;
  Require(expected.bytes().size() == actual.bytes().size(), what, ": ", expected.bytes().size(),
          " bytes of results against ", actual.bytes().size());
  for (size_t i = 0; i < expected.bytes().size(); ++i) {
    Require(expected.bytes()[i] == actual.bytes()[i], what, ": byte ", i, " of ",
            expected.bytes().size(), " is ", int{expected.bytes()[i]}, " against ",
            int{actual.bytes()[i]});
  }
}

// Whether results on a GPU are compared as well: that of tests/cuda_emulation, which
// ENDCAP_CUDA_LIBRARY names.
inline bool HasGpu() { return DescribeCuda().available; }

// Device memory with the values of a vector of the host.
template <typename T>
class OnGpu {
 public:
  explicit OnGpu(const std::vector<T>& values)
      : count_(values.size()), memory_(AllocateCuda(values.size() * sizeof(T), {})) {
    CopyCuda(memory_.get(), values.data(), values.size() * sizeof(T), {});
  }
  T* get() const { return static_cast<T*>(memory_.get()); }
  std::vector<T> Read() const {
    std::vector<T> values(count_);
    CopyCuda(values.data(), memory_.get(), count_ * sizeof(T), {});
    SynchronizeCuda({});
    return values;
  }

 private:
  size_t count_;
  std::shared_ptr<void> memory_;
};

// The instruction set of the input's choice; "" where this CPU has none.
inline std::string_view PickSimdTarget(FuzzInput& input) {
  static const std::vector<std::string_view> targets = SimdTargets();
  const uint8_t choice = input.Byte();
  return targets.empty() ? "" : targets[choice % targets.size()];
}

struct PathOutcomes {
  Outcome scalar;
  Outcome simd;  // that of the scalar implementation where the machine has no other
};

// Calls run(outcome) on the scalar implementation and on the simd implementation with `target`,
// which stays forced.
template <typename Run>
PathOutcomes RunOnPaths(std::string_view target, Run run) {
  ForceImplementation("scalar");
  PathOutcomes outcomes;
  outcomes.scalar = Capture(run);
  if (target.empty()) {
    outcomes.simd = outcomes.scalar;
    return outcomes;
  }
  ForceImplementation("simd");
  ForceSimdTarget(target);
  outcomes.simd = Capture(run);
  return outcomes;
}

// The same, and requires the same bytes and errors of both. Returns the outcome.
template <typename Run>
Outcome RequireEqualPaths(std::string_view target, std::string_view what, Run run) {
  PathOutcomes outcomes = RunOnPaths(target, run);
  RequireEqual(outcomes.scalar, outcomes.simd,
               std::string(what) + ", scalar against " + std::string(target));
  return std::move(outcomes.scalar);
}

}  // namespace endcap::fuzz
