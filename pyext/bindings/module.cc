#include <pybind11/pybind11.h>

#include "bindings/bind.h"

// The compiled module is private: endcap/*.py wraps it and _core.pyi types it.
PYBIND11_MODULE(_core, module) {
  module.doc() = "Native core of endcap.";
  BindErrors(module);
  BindImplementations(module);
  BindDecode(module);
  BindPreprocess(module);
  BindBoxDecode(module);
  BindNms(module);
  BindPostprocess(module);
}
