#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#if defined(ENDCAP_CUDA_RACES)
#include <sanitizer/tsan_interface.h>
extern "C" void __tsan_atomic8_store(volatile char* address, char value, int order);
#endif

// What ThreadSanitizer is told of the emulated threads, so that it reports two of them using the
// same memory without a barrier between. Says nothing in a build without it.

namespace endcap::emulation {

#if defined(ENDCAP_CUDA_RACES)

inline constexpr bool kRacesObserved = true;

// One emulated thread, a stream, or the host's thread that runs them.
class Observed {
 public:
  enum class Caller { kThis };

  Observed() : state_(__tsan_create_fiber(0)), created_(true) {}
  explicit Observed(Caller) : state_(__tsan_get_current_fiber()) {}
  Observed(Observed&& other) noexcept : state_(other.state_), created_(other.created_) {
    other.created_ = false;
  }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;
  Observed& operator=(Observed&&) = delete;
  ~Observed() {
    if (created_) __tsan_destroy_fiber(state_);
  }

  // What runs from here on is this thread's.
  void Enter() const { __tsan_switch_to_fiber(state_, __tsan_switch_to_fiber_no_sync); }

 private:
  void* state_;
  bool created_ = false;
};

// What threads have done and told here, for who learns of it.
class Known {
 public:
  void Tell() { __tsan_release(point_.get()); }
  void Learn() const { __tsan_acquire(point_.get()); }

 private:
  std::unique_ptr<char> point_ = std::make_unique<char>();
};

// Two observed threads must not use the same stack.
inline void RunOnOwnStack(const std::function<void()>& work) { std::thread(work).join(); }

// What each thread of `before` has done is known to each of `after` from here on.
inline void Order(const std::vector<const Observed*>& before,
                  const std::vector<const Observed*>& after) {
  constexpr int kRelease = __ATOMIC_RELEASE;
  const Observed here(Observed::Caller::kThis);
  static char point;
  bool first = true;
  for (const Observed* thread : before) {
    thread->Enter();
    // A store forgets what was known here from earlier calls.
    first ? __tsan_atomic8_store(&point, 0, kRelease) : __tsan_release(&point);
    first = false;
  }
  for (const Observed* thread : after) {
    thread->Enter();
    __tsan_acquire(&point);
  }
  here.Enter();
}

#else

inline constexpr bool kRacesObserved = false;

class Observed {
 public:
  enum class Caller { kThis };
  Observed() = default;
  explicit Observed(Caller) {}
  void Enter() const {}
};

class Known {
 public:
  void Tell() {}
  void Learn() const {}
};

inline void RunOnOwnStack(const std::function<void()>& work) { work(); }

inline void Order(const std::vector<const Observed*>&, const std::vector<const Observed*>&) {}

#endif

}  // namespace endcap::emulation
