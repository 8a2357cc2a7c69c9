#include <algorithm>
#include <optional>

#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/cuda_batch.h"
#include "endcap/postprocess.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

// (status, message, truncated) of every item.
using ItemTuple = std::tuple<int32_t, std::string, bool>;
// The run lengths of every item's masks.
using Rles = std::vector<std::vector<std::string>>;

py::list ToBytes(const Rles& rles) {
  py::list items;
  for (const std::vector<std::string>& rle : rles) {
    py::list strings;
    for (const std::string& string : rle) strings.append(py::bytes(string));
    items.append(strings);
  }
  return items;
}

std::vector<ItemTuple> ToTuples(const std::vector<PostprocessItem>& items) {
  std::vector<ItemTuple> tuples;
  tuples.reserve(items.size());
  for (const PostprocessItem& item : items) {
    tuples.emplace_back(static_cast<int32_t>(item.status.code), item.status.message,
                        item.truncated);
  }
  return tuples;
}

// head: the tensors of HeadInputs, each [B, ...]; geometry [B,8] or empty; status [B] or empty;
// out: the tensors of PostprocessOutputs, each [B, ...], or None for one that is not wanted. Also
// gives the masks' run lengths, none for families without masks.
py::tuple Run(Postprocessor& postprocessor, const std::vector<py::array>& head,
              const py::array_t<float>& geometry, const py::array_t<int32_t>& status,
              std::vector<std::optional<py::array>> out) {
  const py::ssize_t count = out.empty() || !out[0] || out[0]->ndim() < 1 ? 0 : out[0]->shape(0);
  const auto has_rows = [count](const py::array& array) {
    return array.ndim() >= 1 && array.shape(0) == count;
  };
  const auto is_absent_or_has_rows = [&](const std::optional<py::array>& array) {
    return !array || has_rows(*array);
  };
  if (!std::all_of(head.begin(), head.end(), has_rows) ||
      !std::all_of(out.begin(), out.end(), is_absent_or_has_rows) ||
      (geometry.size() != 0 && geometry.size() != count * Geometry::kSize) ||
      (status.size() != 0 && status.size() != count)) {
    FailRows();
  }
  std::vector<PostprocessInput> inputs(static_cast<size_t>(count));
  std::vector<PostprocessOutput> outputs(static_cast<size_t>(count));
  Rles rles(GivesRle(postprocessor.params()) ? inputs.size() : 0);
  for (py::ssize_t i = 0; i < count; ++i) {
    const auto item = static_cast<size_t>(i);
    if (!rles.empty()) outputs[item].rle = &rles[item];
    for (const py::array& tensor : head) inputs[item].head.push_back(ItemView(tensor, i));
    if (geometry.size() != 0) inputs[item].geometry = geometry.data() + i * Geometry::kSize;
    if (status.size() != 0) inputs[item].status = status.data()[i];
    for (std::optional<py::array>& tensor : out) {
      outputs[item].tensors.push_back(tensor ? MutableItemView(*tensor, i) : TensorView{});
    }
  }
  std::vector<PostprocessItem> items;
  {
    const py::gil_scoped_release release;
    items = postprocessor.Run(inputs, outputs);
  }
  return py::make_tuple(ToTuples(items), ToBytes(rles));
}

// geometry: None, or [B,8]; status [B] or empty.
std::vector<ItemTuple> RunCuda(CudaPostprocessor& postprocessor, const py::list& head,
                               const py::object& geometry, const py::array_t<int32_t>& status,
                               const std::vector<CudaTensor>& out, StreamHandle stream) {
  const CudaBatch batch(head, geometry, status, out);
  std::vector<PostprocessItem> items;
  {
    const py::gil_scoped_release release;
    const StreamOrder order(batch.targets(), {postprocessor.device_id(), StreamOf(stream)});
    items = postprocessor.Run(batch.inputs(), batch.outputs(), StreamOf(stream));
  }
  return ToTuples(items);
}

void EnqueueCuda(CudaPostprocessor& postprocessor, const py::list& head, const py::object& geometry,
                 const py::array_t<int32_t>& status, const std::vector<CudaTensor>& out,
                 StreamHandle stream) {
  const CudaBatch batch(head, geometry, status, out);
  const py::gil_scoped_release release;
  const StreamOrder order(batch.targets(), {postprocessor.device_id(), StreamOf(stream)});
  postprocessor.Enqueue(batch.inputs(), batch.outputs(), StreamOf(stream));
}

// What both kinds tell of themselves.
template <typename Engine>
void DefineProperties(py::class_<Engine>& engine) {
  engine
      .def_property_readonly("parameters",
                             [](const Engine& self) {
                               return ParameterTuples(DescribePostprocessParams(self.params()));
                             })
      .def_property_readonly(
          "inputs", [](const Engine& self) { return SpecTuples(HeadInputs(self.params().head)); })
      .def_property_readonly("outputs", [](const Engine& self) {
        return SpecTuples(PostprocessOutputs(self.params()));
      });
}

}  // namespace
}  // namespace endcap::python

void BindPostprocess(py::module_& module) {
  using endcap::CudaPostprocessor;
  using endcap::Postprocessor;
  py::class_<Postprocessor> cpu(module, "Postprocessor");
  cpu.def(py::init([](const endcap::ParameterList& parameters, int threads) {
            return std::make_unique<Postprocessor>(endcap::ParsePostprocessParams(parameters),
                                                   threads);
          }),
          py::arg("parameters"), py::arg("threads"))
      .def_property_readonly("threads", &Postprocessor::threads)
      .def("run", endcap::python::Run, py::arg("head"), py::arg("geometry").noconvert(),
           py::arg("status").noconvert(), py::arg("out"));
  endcap::python::DefineProperties(cpu);

  py::class_<CudaPostprocessor> cuda(module, "CudaPostprocessor");
  cuda.def(py::init([](const endcap::ParameterList& parameters, int device_id) {
             const auto params = endcap::ParsePostprocessParams(parameters);
             const py::gil_scoped_release release;
             return std::make_unique<CudaPostprocessor>(params, device_id);
           }),
           py::arg("parameters"), py::arg("device_id"))
      .def("run", endcap::python::RunCuda, py::arg("head"), py::arg("geometry"),
           py::arg("status").noconvert(), py::arg("out"), py::arg("stream"))
      .def("enqueue", endcap::python::EnqueueCuda, py::arg("head"), py::arg("geometry"),
           py::arg("status").noconvert(), py::arg("out"), py::arg("stream"));
  endcap::python::DefineProperties(cuda);
}
