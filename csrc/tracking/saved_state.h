#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/fail.h"

namespace endcap {

// Boxes within Tracker::kFarthest stay far below, the aspect of a very flat one included.
inline constexpr double kMaxNumber = 1e100;

// Throws kInvalidArgument: the bytes are not a state. `why` follows "the state of a tracker".
[[noreturn]] inline void FailState(const char* why) {
  FailArgument("the state of a tracker ", why, ": give bytes that a tracker has saved");
}

// A saved tracker, numbers of 8 bytes each, the lowest byte first: bytes that are written, or that
// are read. What is saved names its parts once, in their order, in a function Visit(state); each
// call appends the part, or sets it, within bounds.
class SavedState {
 public:
  SavedState() = default;  // writes
  explicit SavedState(std::string_view bytes) : bytes_(bytes), reads_(true) {}

  void Bits(uint64_t& number) {
    if (!reads_) {
      for (int shift = 0; shift < 64; shift += 8) {
        bytes_.push_back(static_cast<char>(number >> shift & 0xFFU));
      }
      return;
    }
    if (bytes_.size() - at_ < 8) FailState("is too short");
    number = 0;
    for (int shift = 0; shift < 64; shift += 8) {
      number |= static_cast<uint64_t>(static_cast<unsigned char>(bytes_[at_++])) << shift;
    }
  }
  template <typename T>
  void Integer(T& number, int64_t low, int64_t high) {
    auto bits = static_cast<uint64_t>(number);
    Bits(bits);
    const auto value = static_cast<int64_t>(bits);
    if (reads_ && (value < low || value > high)) FailState("has numbers that cannot be");
    number = static_cast<T>(value);
  }
  void Number(double& number, double low = -kMaxNumber, double high = kMaxNumber) {
    auto bits = std::bit_cast<uint64_t>(number);
    Bits(bits);
    number = std::bit_cast<double>(bits);
    if (reads_ && !(number >= low && number <= high)) FailState("has a number that cannot be");
  }
  // Returns whether there is a value, whose parts follow.
  template <typename T>
  bool Has(std::optional<T>& value) {
    bool has = value.has_value();
    Integer(has, 0, 1);
    if (has && !value) value.emplace();
    return has;
  }

  const std::string& bytes() const { return bytes_; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string bytes_;
  bool reads_ = false;
  size_t at_ = 0;
};

}  // namespace endcap
