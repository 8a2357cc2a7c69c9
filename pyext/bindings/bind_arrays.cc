#include <pybind11/stl.h>

#include "bindings/bind.h"
#include "bindings/buffer_pool.h"

void BindArrays(pybind11::module_& module) {
  module.def("empty", endcap::python::PooledArray, pybind11::arg("dtype"), pybind11::arg("shape"));
}
