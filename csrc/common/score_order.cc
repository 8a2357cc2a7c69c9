#include "common/score_order.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace endcap {
namespace {

// Below this, comparing is faster than counting.
constexpr size_t kRadixFrom = 256;

constexpr int kDigitBits = 11;
constexpr size_t kDigits = 6;  // 6 * 11 >= 64
constexpr size_t kDigitValues = size_t{1} << kDigitBits;

size_t Digit(uint64_t key, size_t digit) {
  return key >> (digit * kDigitBits) & (kDigitValues - 1);
}

using Counts = std::array<std::array<uint32_t, kDigitValues>, kDigits>;

void CountDigits(const std::vector<uint64_t>& keys, Counts& counts) {
  for (auto& digit : counts) digit.fill(0);
  for (const uint64_t key : keys) {
    for (size_t d = 0; d < kDigits; ++d) ++counts[d][Digit(key, d)];
  }
}

}  // namespace

void SortKeys(std::vector<uint64_t>& keys, std::vector<uint64_t>& spare) {
  if (keys.size() < kRadixFrom || keys.size() > std::numeric_limits<uint32_t>::max()) {
    std::sort(keys.begin(), keys.end());
    return;
  }
  // Radix sort, least significant digit first; a digit that all keys share is left out.
  Counts counts;
  CountDigits(keys, counts);
  spare.resize(keys.size());
  for (size_t d = 0; d < kDigits; ++d) {
    if (counts[d][Digit(keys[0], d)] == keys.size()) continue;
    uint32_t start = 0;
    for (uint32_t& count : counts[d]) {
      const uint32_t length = count;
      count = start;
      start += length;
    }
    for (const uint64_t key : keys) spare[counts[d][Digit(key, d)]++] = key;
    keys.swap(spare);
  }
}

float FloatBelow(double limit) noexcept {
  const auto nearest = static_cast<float>(limit);
  if (static_cast<double>(nearest) <= limit) return nearest;
  return std::nextafterf(nearest, -std::numeric_limits<float>::infinity());
}

}  // namespace endcap
