#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>

namespace endcap {

// Whether images are decoded with a helper, by what it was worth for the last ones: less than
// nothing where other processes have the CPUs, or where the threads' caches are far apart.
// Thread-safe.
class HelpPolicy {
 public:
  // Of the next image. Now and then the worse way, to see whether it still is.
  bool Allows() noexcept {
    const std::scoped_lock lock(mutex_);
    const bool better = with_help_.ns_per_byte < kLeastGain * alone_.ns_per_byte;
    const bool tries_other = ++asked_ % kTryOther == 0;
    if (with_help_.images == 0) return true;
    if (alone_.images == 0) return false;
    return better != tries_other;
  }

  // How long an image has taken, of so many bytes, that was decoded as Allows has said.
  void Report(bool helped, int64_t ns, int64_t bytes) noexcept {
    const std::scoped_lock lock(mutex_);
    Cost& cost = helped ? with_help_ : alone_;
    const double sample =
        static_cast<double>(ns) / static_cast<double>(std::max(bytes, int64_t{1}));
    const double weight = cost.images == 0 ? 1.0 : kWeight;
    cost.ns_per_byte += weight * (sample - cost.ns_per_byte);
    cost.images = 1;
  }

 private:
  static constexpr double kLeastGain = 0.95;
  static constexpr double kWeight = 0.25;  // of an image in the mean of the last ones
  static constexpr uint32_t kTryOther = 32;

  struct Cost {
    double ns_per_byte = 0;
    int images = 0;  // 0: none so far
  };

  std::mutex mutex_;
  Cost with_help_;
  Cost alone_;
  uint32_t asked_ = 0;
};

}  // namespace endcap
