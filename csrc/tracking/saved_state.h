#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/fail.h"

namespace endcap {

// A saved tracker: numbers of 8 bytes each, the lowest byte first.
class StateWriter {
 public:
  void Add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_.push_back(static_cast<char>(number >> shift & 0xFFU));
    }
  }
  void Add(int64_t number) { Add(static_cast<uint64_t>(number)); }
  void Add(double number) { Add(std::bit_cast<uint64_t>(number)); }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Throws kInvalidArgument: the bytes are not a state. `why` follows "the state of a tracker".
[[noreturn]] inline void FailState(const char* why) {
  FailArgument("the state of a tracker ", why, ": give bytes that Save has written");
}

// Boxes within Tracker::kFarthest stay far below, the aspect of a very flat one included.
inline constexpr double kMaxNumber = 1e100;

class StateReader {
 public:
  explicit StateReader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t Take() {
    if (bytes_.size() - at_ < 8) FailState("is too short");
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 8) {
      number |= static_cast<uint64_t>(static_cast<unsigned char>(bytes_[at_++])) << shift;
    }
    return number;
  }

  // Numbers within bounds, or FailState.
  int64_t TakeInteger(int64_t low, int64_t high) {
    const auto number = static_cast<int64_t>(Take());
    if (number < low || number > high) FailState("has numbers that cannot be");
    return number;
  }
  double TakeNumber(double low = -kMaxNumber, double high = kMaxNumber) {
    const auto number = std::bit_cast<double>(Take());
    if (!(number >= low && number <= high)) FailState("has a number that cannot be");
    return number;
  }
  double TakeVariance() { return TakeNumber(0.0); }
  bool TakeBool() { return TakeInteger(0, 1) != 0; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace endcap
