#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace endcap::fuzz {

// The bytes of one fuzzer input, read as values. Numbers are taken from the end and files and texts
// from the beginning, so that a file followed by a few bytes is a useful seed. Reading past the end
// gives zeros and empty texts.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) noexcept : bytes_(data, size) {}

  bool empty() const noexcept { return bytes_.empty(); }

  uint8_t Byte() noexcept {
    if (bytes_.empty()) return 0;
    const uint8_t byte = bytes_.back();
    bytes_ = bytes_.first(bytes_.size() - 1);
    return byte;
  }

  bool Bool() noexcept { return (Byte() & 1) != 0; }

  // Whether an event of probability `chance` / 256 happens; never without bytes.
  bool Happens(int chance) noexcept { return !empty() && Byte() >= 256 - chance; }

  uint64_t Word(int bytes) noexcept {
    uint64_t word = 0;
    for (int i = 0; i < bytes; ++i) word = word << 8 | Byte();
    return word;
  }

  // A number from `low` to `high`, in as few bytes as their distance needs.
  int64_t Integer(int64_t low, int64_t high) noexcept {
    const uint64_t distance = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    int bytes = 0;
    for (uint64_t rest = distance; rest != 0; rest >>= 8) ++bytes;
    const uint64_t word = Word(bytes);
    const uint64_t step = distance == UINT64_MAX ? word : word % (distance + 1);
    return static_cast<int64_t>(static_cast<uint64_t>(low) + step);
  }

  int Int(int low, int high) noexcept { return static_cast<int>(Integer(low, high)); }
  size_t Size(size_t high) noexcept {
    return static_cast<size_t>(Integer(0, static_cast<int64_t>(high)));
  }

  // Any float32, NaN and infinities included.
  float AnyFloat() noexcept { return std::bit_cast<float>(static_cast<uint32_t>(Word(4))); }
  // One of 65536 numbers from `low` to `high`.
  double Number(double low, double high) noexcept {
    return low + (high - low) * static_cast<double>(Word(2)) / 65535.0;
  }

  template <typename T, size_t kCount>
  T Pick(const std::array<T, kCount>& values) noexcept {
    return values[Size(kCount - 1)];
  }
  template <typename Enum>
  Enum PickEnum(Enum last) noexcept {
    return static_cast<Enum>(Integer(0, static_cast<int64_t>(last)));
  }

  // At most `limit` of the first bytes that are left, in memory of exactly that size.
  std::vector<uint8_t> Bytes(size_t limit) {
    const auto taken = bytes_.first(std::min(limit, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return {taken.begin(), taken.end()};
  }
  std::vector<uint8_t> Rest() { return Bytes(bytes_.size()); }
  // The text up to the next zero byte, or to the end.
  std::string Text() {
    const auto end = std::find(bytes_.begin(), bytes_.end(), uint8_t{0});
    std::string text(bytes_.begin(), end);
    const auto taken = static_cast<size_t>(end - bytes_.begin());
    bytes_ = bytes_.subspan(std::min(taken + 1, bytes_.size()));
    return text;
  }

 private:
  std::span<const uint8_t> bytes_;
};

// Many values of few bytes of input: xorshift64*, the same on every machine.
// Source: Vigna, "An experimental exploration of Marsaglia's xorshift generators" (2016).
class Noise {
 public:
  explicit Noise(uint64_t seed) noexcept : state_(seed * 2 + 1) {}

  uint32_t Next() noexcept {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>((state_ * 0x2545F4914F6CDD1DULL) >> 32);
  }
  int Below(int count) noexcept {
    return static_cast<int>(Next() % static_cast<uint32_t>(std::max(count, 1)));
  }
  // One of `steps` + 1 numbers from `low` to `high`: few steps make equal numbers frequent.
  float Number(double low, double high, int steps) noexcept {
    return static_cast<float>(low + (high - low) * Below(steps + 1) / steps);
  }
  void Fill(std::span<uint8_t> bytes) noexcept {
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(Next());
  }

 private:
  uint64_t state_;
};

// Writes numbers of the input over some of `values`: anything, or one of the values that arithmetic
// treats in a special way.
inline void Disturb(FuzzInput& input, std::span<float> values) {
  constexpr std::array kSpecial = {0x00000000U, 0x80000000U, 0x7F800000U, 0xFF800000U,
                                   0x7FC00000U, 0x00000001U, 0x7F7FFFFFU, 0x3F800000U};
  const int count = input.Int(0, 7);
  for (int i = 0; i < count && !values.empty(); ++i) {
    const size_t place = input.Size(values.size() - 1);
    values[place] = input.Bool() ? input.AnyFloat() : std::bit_cast<float>(input.Pick(kSpecial));
  }
}

}  // namespace endcap::fuzz
