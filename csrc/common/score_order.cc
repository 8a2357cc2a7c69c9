#include "common/score_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

namespace endcap {
namespace {

// Below this, comparing is faster than counting.
constexpr size_t kRadixFrom = 128;
// From here on, wider digits pay for their longer tables.
constexpr size_t kWideDigitsFrom = 4096;

// The bits that decide: all keys share those above `end`, and are in order by those below `begin`.
struct BitRange {
  int begin;
  int end;
};

BitRange DecidingBits(const std::vector<uint64_t>& keys) {
  uint64_t varying = 0;
  bool ascending = true;  // by position
  uint32_t last = 0;
  for (const uint64_t key : keys) {
    varying |= key ^ keys[0];
    ascending = ascending && KeyPosition(key) >= last;
    last = KeyPosition(key);
  }
  if (ascending) varying &= ~uint64_t{0} << 32;
  return {std::countr_zero(varying), 64 - std::countl_zero(varying)};
}

// Radix sort, least significant digit first; each pass keeps the order of equal digits.
template <int kDigitBits>
void SortByBits(std::vector<uint64_t>& keys, std::vector<uint64_t>& spare, BitRange bits) {
  constexpr uint64_t kMask = (uint64_t{1} << kDigitBits) - 1;
  for (int shift = bits.begin; shift < bits.end; shift += kDigitBits) {
    std::array<uint32_t, kMask + 1> starts{};
    for (const uint64_t key : keys) ++starts[key >> shift & kMask];
    uint32_t start = 0;
    for (uint32_t& count : starts) start += std::exchange(count, start);
    for (const uint64_t key : keys) spare[starts[key >> shift & kMask]++] = key;
    keys.swap(spare);
  }
}

}  // namespace

void SortKeys(std::vector<uint64_t>& keys, std::vector<uint64_t>& spare) {
  if (keys.size() < kRadixFrom || keys.size() > std::numeric_limits<uint32_t>::max()) {
    std::sort(keys.begin(), keys.end());
    return;
  }
  spare.resize(keys.size());
  const BitRange bits = DecidingBits(keys);
  if (keys.size() < kWideDigitsFrom) {
    SortByBits<8>(keys, spare, bits);
  } else {
    SortByBits<11>(keys, spare, bits);
  }
}

float GreatestFloatAtMost(double limit) noexcept {
  const auto nearest = static_cast<float>(limit);
  if (static_cast<double>(nearest) <= limit) return nearest;
  return std::nextafterf(nearest, -std::numeric_limits<float>::infinity());
}

}  // namespace endcap
