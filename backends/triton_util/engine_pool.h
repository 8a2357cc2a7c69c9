#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace endcap::triton {

// The core's objects for the instances of one model: one for each GPU and one for the CPU, made
// when the first instance needs it and shared, so that all instances together keep to one number of
// threads. Thread-safe.
template <typename Engine>
class EnginePool {
 public:
  static constexpr int kCpu = -1;

  // device_id: a GPU, or kCpu.
  template <typename Make>
  std::shared_ptr<Engine> Get(int device_id, const Make& make) {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<Engine> engine = engines_[device_id].lock();
    if (engine == nullptr) engines_[device_id] = engine = make();
    return engine;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::weak_ptr<Engine>> engines_;
};

}  // namespace endcap::triton
