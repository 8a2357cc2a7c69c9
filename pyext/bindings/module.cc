#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/bind.h"
#include "bindings/buffer_pool.h"
#include "endcap/error.h"

namespace py = pybind11;

namespace {

// endcap.errors says the class of each code.
void TranslateError(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const endcap::Error& error) {
    const auto make = py::module_::import("endcap.errors").attr("error_for_status");
    const py::object instance = make(static_cast<int32_t>(error.code()), error.what());
    PyErr_SetObject(py::type::of(instance).ptr(), instance.ptr());
  }
}

}  // namespace

// The compiled module is private: endcap/*.py wraps it and _core.pyi types it. It needs no GIL: the
// engines and functions of the core are thread-safe and run with the GIL released in other builds
// of Python, the buffer pool has a mutex, and taking over a DLPack capsule locks the capsule.
// PyInit__core below is what Python calls.
PYBIND11_MODULE(_core_of_main_interpreter, module, py::mod_gil_not_used()) {
  module.doc() = "Native core of endcap.";
  // Loads NumPy's C API now: later it would happen inside a call, where an interrupt of the import
  // has no way out. A NumPy that cannot be imported has none there either, so that comes first.
  py::module_::import("numpy");
  py::dtype::of<float>();
  py::register_exception_translator(TranslateError);
  module.def("clip_text", endcap::ClipText, py::arg("text"));
  module.def("empty", endcap::python::PooledArray, py::arg("dtype"), py::arg("shape"));
  BindCuda(module);
  BindImplementations(module);
  BindDecode(module);
  BindPreprocess(module);
  BindBoxDecode(module);
  BindNms(module);
  BindPostprocess(module);
  BindMasks(module);
  BindTracking(module);
  BindContract(module);
}

// pybind11 and NumPy belong to one interpreter of a process. In another one PyGILState_Ensure,
// which pybind11 calls before anything of the module runs, waits forever for the GIL of the first.
extern "C" PYBIND11_EXPORT PyObject* PyInit__core() {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError,
                    "endcap cannot be imported in a subinterpreter: import it in the main "
                    "interpreter, and use threads or processes in place of subinterpreters");
    return nullptr;
  }
  return PyInit__core_of_main_interpreter();
}
