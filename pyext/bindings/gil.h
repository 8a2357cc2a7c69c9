#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "endcap/error.h"
#include "endcap/thread_pool.h"

/// Takes the GIL for `thread`, or waits until the process ends when the interpreter is being
/// finalized.
extern "C" void EndcapTakeGil(PyThreadState* thread);

namespace endcap::python {

/// Whether the interpreter is being finalized, or is gone. Only its main thread may run Python
/// then.
inline bool IsFinalizing() noexcept {
  if (Py_IsInitialized() == 0) return true;
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

/// Releases the GIL for a scope of native work and takes it again at the scope's end.
///
/// Differs from py::gil_scoped_release at exit: a daemon thread that returns from native work while
/// the interpreter is being finalized does not abort the process.
class ReleasedGil {
 public:
  ReleasedGil() : thread_(PyEval_SaveThread()) {}
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;
  ~ReleasedGil() { EndcapTakeGil(thread_); }

  /// Takes the GIL for the handlers of signals that have arrived. Returns false if one of them
  /// raised, which leaves its exception set.
  bool HandleSignals() const noexcept {
    EndcapTakeGil(thread_);
    const bool passed = PyErr_CheckSignals() == 0;
    PyEval_SaveThread();
    return passed;
  }

 private:
  PyThreadState* thread_;
};

/// Returns what `work` returns, which runs without the GIL.
template <typename Work>
auto WithoutGil(const Work& work) {
  const ReleasedGil released;
  return work();
}

/// The same for long work: on the main thread, which is the one that Python handles signals on,
/// they are handled meanwhile. An exception of a handler, as Ctrl-C raises it, ends the work
/// between two images of a batch and is thrown.
template <typename Work>
auto RunInterruptibly(const Work& work) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPeriod{50};
  bool interrupted = false;
  std::optional<decltype(work())> result;
  try {
    const ReleasedGil released;
    Clock::time_point checked = Clock::now();
    const std::function<bool()> stop = [&] {
      if (interrupted || Clock::now() - checked < kPeriod || gettid() != getpid()) {
        return interrupted;
      }
      interrupted = !released.HandleSignals();
      checked = Clock::now();
      return interrupted;
    };
    const StopCheck check(stop);
    result = work();
  } catch (const Error&) {
    if (!interrupted) throw;
  }
  if (interrupted) throw pybind11::error_already_set();
  return std::move(*result);
}

}  // namespace endcap::python
