#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <string>
#include <typeinfo>

/// Binds a class whose instances are not pickled. One that has no object of T yet, because __new__
/// was called without __init__, raises TypeError wherever it is used.
template <typename T>
pybind11::class_<T> BindClass(pybind11::module_& module, const char* name) {
  pybind11::class_<T> bound(module, name);
  // Without this pybind11 would give such an instance memory, and use it uninitialised.
  pybind11::detail::get_type_info(typeid(T), /*throw_if_missing=*/true)->operator_new =
      [](size_t /*bytes*/) -> void* {
    throw pybind11::type_error("the instance was made by __new__ and not initialised");
  };
  // Without this `copyreg` would instantiate pybind11's base class, which aborts.
  bound.def("__reduce__", [](const pybind11::handle& self) -> pybind11::object {
    throw pybind11::type_error(
        "a " + pybind11::cast<std::string>(pybind11::type::of(self).attr("__name__")) +
        " cannot be pickled or copied");
  });
  return bound;
}

// One function per file bind_*.cc.
void BindContract(pybind11::module_& module);
void BindCuda(pybind11::module_& module);
void BindImplementations(pybind11::module_& module);
void BindDecode(pybind11::module_& module);
void BindPreprocess(pybind11::module_& module);
void BindBoxDecode(pybind11::module_& module);
void BindNms(pybind11::module_& module);
void BindPostprocess(pybind11::module_& module);
void BindMasks(pybind11::module_& module);
void BindTracking(pybind11::module_& module);
