#pragma once

#include <pybind11/pybind11.h>

// One function per file bind_*.cc.
void BindArrays(pybind11::module_& module);
void BindErrors(pybind11::module_& module);
void BindCuda(pybind11::module_& module);
void BindImplementations(pybind11::module_& module);
void BindDecode(pybind11::module_& module);
void BindPreprocess(pybind11::module_& module);
void BindBoxDecode(pybind11::module_& module);
void BindNms(pybind11::module_& module);
void BindPostprocess(pybind11::module_& module);
void BindMasks(pybind11::module_& module);
void BindTracking(pybind11::module_& module);
