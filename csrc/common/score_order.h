#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/host_device.h"

namespace endcap {

// Score and position in one integer: ascending keys are descending scores, and among equal scores
// (-0 equals 0) ascending positions. The score is not NaN.
ENDCAP_HOST_DEVICE inline uint64_t ScoreKey(float score, uint32_t position) noexcept {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);  // makes -0 a 0
  const uint32_t descending = (bits >> 31) != 0 ? bits : bits ^ 0x7FFFFFFFU;
  return uint64_t{descending} << 32 | position;
}

ENDCAP_HOST_DEVICE inline uint32_t KeyPosition(uint64_t key) noexcept {
  return static_cast<uint32_t>(key);
}

ENDCAP_HOST_DEVICE inline float KeyScore(uint64_t key) noexcept {
  const auto descending = static_cast<uint32_t>(key >> 32);
  return std::bit_cast<float>((descending >> 31) != 0 ? descending : descending ^ 0x7FFFFFFFU);
}

// Sorts distinct keys, ascending. `spare` is memory for it; what it holds does not matter.
void SortKeys(std::vector<uint64_t>& keys, std::vector<uint64_t>& spare);

// The greatest float that is not greater than `limit`. For every float x, also an infinite one,
// x > GreatestFloatAtMost(limit) is then the same as double(x) > limit. `limit` is not NaN.
float GreatestFloatAtMost(double limit) noexcept;

// Gives memory back that a call of unusual size has left: what a thread keeps for its next call
// stays below this, per vector.
inline constexpr size_t kMaxKeptBytes = size_t{16} << 20;

template <typename... T>
void TrimScratch(std::vector<T>&... scratch) {
  const auto trim = []<typename Value>(std::vector<Value>& vector) {
    if (vector.capacity() * sizeof(Value) > kMaxKeptBytes) std::vector<Value>().swap(vector);
  };
  (trim(scratch), ...);
}

// Calls scratch.Trim() at the end of its block, also when that is an exception.
template <typename Scratch>
class TrimOnExit {
 public:
  explicit TrimOnExit(Scratch& scratch) noexcept : scratch_(scratch) {}
  ~TrimOnExit() { scratch_.Trim(); }
  TrimOnExit(const TrimOnExit&) = delete;
  TrimOnExit& operator=(const TrimOnExit&) = delete;

 private:
  Scratch& scratch_;
};

}  // namespace endcap
