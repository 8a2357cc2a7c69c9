#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

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

// Throws kInvalidArgument: the bytes are no state. `why` follows "the state of a tracker".
[[noreturn]] void FailState(const char* why);

class StateReader {
 public:
  explicit StateReader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t Take();
  // Numbers within bounds, or FailState.
  int64_t TakeInteger(int64_t low, int64_t high);
  double TakeNumber();    // finite, and no larger than boxes within Tracker::kFarthest give
  double TakeVariance();  // the same, at least 0
  bool TakeBool() { return TakeInteger(0, 1) != 0; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace endcap
