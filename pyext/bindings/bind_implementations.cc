#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <vector>

#include "bindings/bind.h"
#include "endcap/implementation.h"

namespace py = pybind11;

void BindImplementations(py::module_& module) {
  // (name, stage, implementation, available, reason, ran_last)
  using Row = std::tuple<std::string, std::string, std::string, bool, std::string, bool>;
  module.def("implementations", [] {
    std::vector<Row> rows;
    for (const endcap::ImplementationInfo& entry : endcap::ListImplementations()) {
      rows.emplace_back(entry.name, endcap::StageName(entry.stage),
                        endcap::ImplementationName(entry.implementation), entry.available,
                        entry.reason, entry.ran_last);
    }
    return rows;
  });
  module.def("force_implementation", endcap::ForceImplementation, py::arg("implementation"));
  module.def("simd_targets", endcap::SimdTargets);
  module.def("simd_target", endcap::SimdTarget);
  module.def("force_simd_target", endcap::ForceSimdTarget, py::arg("name"));
}
