#pragma once

#include <exception>
#include <mutex>

namespace endcap {

// What goes wrong with the device on any of a batch's threads: the first is thrown at the end.
class DeviceErrors {
 public:
  template <typename Call>
  void Guard(Call call) noexcept {
    try {
      call();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!first_) first_ = std::current_exception();
    }
  }
  void Rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace endcap
