#include <nlohmann/json.hpp>

#include "bindings/bind.h"
#include "bindings/convert.h"
#include "endcap/contract.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

// (name, forms, optional, determined_by); a form is a data type and dims.
py::list Tensors(const std::vector<TensorContract>& contracts) {
  py::list rows;
  for (const TensorContract& each : contracts) {
    py::list forms;
    for (const TensorForm& form : each.forms) {
      forms.append(py::make_tuple(form.data_type, form.dims));
    }
    rows.append(py::make_tuple(each.name, std::move(forms), each.optional, each.determined_by));
  }
  return rows;
}

py::tuple Contract(const std::string& backend, const ParameterList& parameters, bool with_rois) {
  const ModelContract contract = ReadModelContract(backend, ModelParameters(parameters), with_rois);
  return py::make_tuple(Tensors(contract.inputs), Tensors(contract.outputs),
                        ParameterTuples(contract.parameters), contract.models);
}

// (the config as JSON, problems); a problem is (list, index, field, message).
py::tuple Complete(const std::string& backend, const ParameterList& parameters,
                   const std::string& config, bool complete) {
  nlohmann::json json = nlohmann::json::parse(config);
  const ModelContract contract =
      ReadModelContract(backend, ModelParameters(parameters), ListsTensor(json, "input", kRois));
  py::list problems;
  for (const ConfigProblem& each : CompleteConfig(json, contract, complete)) {
    problems.append(py::make_tuple(each.list, each.index, each.field, each.message));
  }
  return py::make_tuple(json.dump(), std::move(problems));
}

}  // namespace
}  // namespace endcap::python

void BindContract(py::module_& module) {
  module.def("model_contract", endcap::python::Contract, py::arg("backend"), py::arg("parameters"),
             py::arg("with_rois") = false);
  module.def("complete_config", endcap::python::Complete, py::arg("backend"), py::arg("parameters"),
             py::arg("config"), py::arg("complete"));
}
