#include "tracking/saved_state.h"

#include <cmath>

#include "common/fail.h"

namespace endcap {
namespace {

// Boxes within Tracker::kFarthest stay far below, the aspect of a very flat one included.
constexpr double kMostNumber = 1e100;

}  // namespace

void FailState(const char* why) {
  FailArgument("the state of a tracker ", why, ": give bytes that Save has written");
}

uint64_t StateReader::Take() {
  if (bytes_.size() - at_ < 8) FailState("is too short");
  uint64_t number = 0;
  for (int shift = 0; shift < 64; shift += 8) {
    number |= static_cast<uint64_t>(static_cast<unsigned char>(bytes_[at_++])) << shift;
  }
  return number;
}

int64_t StateReader::TakeInteger(int64_t low, int64_t high) {
  const auto number = static_cast<int64_t>(Take());
  if (number < low || number > high) FailState("has numbers that cannot be");
  return number;
}

double StateReader::TakeNumber() {
  const auto number = std::bit_cast<double>(Take());
  if (!(std::abs(number) <= kMostNumber)) FailState("has a number that cannot be");
  return number;
}

double StateReader::TakeVariance() {
  const double variance = TakeNumber();
  if (variance < 0.0) FailState("has a negative variance");
  return variance;
}

}  // namespace endcap
