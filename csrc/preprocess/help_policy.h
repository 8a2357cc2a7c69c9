#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

namespace endcap {

// Decides whether helpers decode an image, too, by the measured times of earlier images with and
// without them. They cost time where other processes use the CPUs, or where the threads' caches are
// far apart. Thread-safe.
class HelpPolicy {
 public:
  // Returns whether the next image has helpers. Tries the slower way now and then, to see
  // whether it still is.
  bool Allows() noexcept {
    const std::scoped_lock lock(mutex_);
    ++asked_;
    if (asked_ <= kFirstTries) return asked_ % 2 == 1;
    const bool better = with_help_.ns_per_byte < kLeastGain * alone_.ns_per_byte;
    return better != (asked_ % kTryOther == 0);
  }

  // Reports the time and the size of an image that was decoded as Allows has said.
  void Report(bool helped, int64_t ns, int64_t bytes) noexcept {
    const std::scoped_lock lock(mutex_);
    Cost& cost = helped ? with_help_ : alone_;
    const double sample =
        static_cast<double>(ns) / static_cast<double>(std::max(bytes, int64_t{1}));
    const double weight = sample < cost.ns_per_byte ? kWeightOfLess : kWeightOfMore;
    cost.ns_per_byte += (cost.is_known ? weight : 1.0) * (sample - cost.ns_per_byte);
    cost.is_known = true;
  }

 private:
  static constexpr double kLeastGain = 0.95;
  // Weight of an image in the moving mean. Disturbances only add time, so a short time has more.
  static constexpr double kWeightOfLess = 0.5;
  static constexpr double kWeightOfMore = 0.15;
  static constexpr uint32_t kFirstTries = 8;  // alternating
  static constexpr uint32_t kTryOther =
      17;  // odd, so that cameras that take turns do not keep step with it

  struct Cost {
    double ns_per_byte = 0;
    bool is_known = false;
  };

  std::mutex mutex_;
  Cost with_help_;
  Cost alone_;
  uint32_t asked_ = 0;
};

}  // namespace endcap
