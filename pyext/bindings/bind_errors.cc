#include "bindings/bind.h"
#include "endcap/error.h"

namespace py = pybind11;

void BindErrors(py::module_& module) {
  module.def("clip_text", endcap::ClipText, py::arg("text"));
  // endcap.errors says the class of each code.
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const endcap::Error& error) {
      const auto make = py::module_::import("endcap.errors").attr("error_for_status");
      const py::object instance = make(static_cast<int32_t>(error.code()), error.what());
      PyErr_SetObject(py::type::of(instance).ptr(), instance.ptr());
    }
  });
}
