#pragma once

#include <pybind11/pybind11.h>

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

 private:
  PyThreadState* thread_;
};

}  // namespace endcap::python
