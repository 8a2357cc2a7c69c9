#pragma once

#include <chrono>
#include <cstdint>

namespace endcap {

// The time of the steady clock in nanoseconds.
inline int64_t SteadyNowNs() noexcept {
  const auto since_epoch = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

}  // namespace endcap
