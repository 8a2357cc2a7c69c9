#include "bindings/bind.h"
#include "bindings/convert.h"
#include "endcap/postprocess.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

// (status, message, truncated) of every item.
using ItemTuple = std::tuple<int32_t, std::string, bool>;

// head: the tensors of HeadInputs, each [B, ...]; geometry [B,8] or empty; status [B] or empty;
// out: the tensors of PostprocessOutputs, each [B, ...].
std::vector<ItemTuple> Run(Postprocessor& postprocessor, const std::vector<py::array>& head,
                           const py::array_t<float>& geometry, const py::array_t<int32_t>& status,
                           std::vector<py::array> out) {
  const py::ssize_t count = out.empty() || out[0].ndim() < 1 ? 0 : out[0].shape(0);
  const auto has_rows = [count](const py::array& array) {
    return array.ndim() >= 1 && array.shape(0) == count;
  };
  if (!std::all_of(head.begin(), head.end(), has_rows) ||
      !std::all_of(out.begin(), out.end(), has_rows) ||
      (geometry.size() != 0 && geometry.size() != count * Geometry::kSize) ||
      (status.size() != 0 && status.size() != count)) {
    throw Error(ErrorCode::kInvalidArgument, "head, geometry [B,8] and status [B] differ in B");
  }
  std::vector<PostprocessInput> inputs(static_cast<size_t>(count));
  std::vector<PostprocessOutput> outputs(static_cast<size_t>(count));
  for (py::ssize_t i = 0; i < count; ++i) {
    const auto item = static_cast<size_t>(i);
    for (const py::array& tensor : head) inputs[item].head.push_back(ItemView(tensor, i));
    if (geometry.size() != 0) inputs[item].geometry = geometry.data() + i * Geometry::kSize;
    if (status.size() != 0) inputs[item].status = status.data()[i];
    for (py::array& tensor : out) outputs[item].tensors.push_back(MutableItemView(tensor, i));
  }
  std::vector<PostprocessItem> items;
  {
    const py::gil_scoped_release release;
    items = postprocessor.Run(inputs, outputs);
  }
  std::vector<ItemTuple> result;
  for (const PostprocessItem& item : items) {
    result.emplace_back(static_cast<int32_t>(item.status.code), item.status.message,
                        item.truncated);
  }
  return result;
}

}  // namespace
}  // namespace endcap::python

void BindPostprocess(py::module_& module) {
  using endcap::Postprocessor;
  py::class_<Postprocessor>(module, "Postprocessor")
      .def(py::init([](const endcap::ParameterList& parameters, int threads) {
             return std::make_unique<Postprocessor>(endcap::ParsePostprocessParams(parameters),
                                                    threads);
           }),
           py::arg("parameters"), py::arg("threads"))
      .def_property_readonly("threads", &Postprocessor::threads)
      .def_property_readonly("parameters",
                             [](const Postprocessor& self) {
                               return endcap::python::ParameterTuples(
                                   endcap::DescribePostprocessParams(self.params()));
                             })
      .def_property_readonly(
          "inputs",
          [](const Postprocessor& self) {
            return endcap::python::SpecTuples(endcap::HeadInputs(self.params().head));
          })
      .def_property_readonly(
          "outputs",
          [](const Postprocessor& self) {
            return endcap::python::SpecTuples(endcap::PostprocessOutputs(self.params()));
          })
      .def("run", endcap::python::Run, py::arg("head"), py::arg("geometry").noconvert(),
           py::arg("status").noconvert(), py::arg("out"));
}
