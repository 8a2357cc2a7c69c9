#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/cuda_batch.h"
#include "bindings/gil.h"
#include "bindings/head_batch.h"
#include "bindings/head_call.h"
#include "endcap/postprocess.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

// parts: of HeadBatch. Returns (items, run lengths) of every part.
py::list Run(Postprocessor& postprocessor, std::vector<HeadPart> parts) {
  const HeadBatch batch(parts);
  std::vector<PostprocessItem> items;
  {
    const ReleasedGil released;
    items = postprocessor.Run(batch.inputs(), batch.outputs());
  }
  return batch.results().Results(items);
}

// parts: of CudaBatch. Returns as Run.
py::list RunCuda(CudaPostprocessor& postprocessor, const std::vector<CudaPart>& parts,
                 StreamHandle stream) {
  const CudaBatch batch(parts);
  std::vector<PostprocessItem> items;
  {
    const ReleasedGil released;
    const StreamOrder order(batch.targets(), {postprocessor.device_id(), ToStream(stream)});
    items = postprocessor.Run(batch.inputs(), batch.outputs(), ToStream(stream));
  }
  return batch.results().Results(items);
}

void EnqueueCuda(CudaPostprocessor& postprocessor, const std::vector<CudaPart>& parts,
                 StreamHandle stream) {
  const CudaBatch batch(parts);
  const ReleasedGil released;
  const StreamOrder order(batch.targets(), {postprocessor.device_id(), ToStream(stream)});
  postprocessor.Enqueue(batch.inputs(), batch.outputs(), ToStream(stream));
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
      .def("run", endcap::python::Run, py::arg("parts").noconvert())
      .def("__call__", endcap::python::CallHead, py::arg("head"), py::arg("geometry").noconvert(),
           py::arg("status").noconvert(), py::arg("with_packed_masks"));
  endcap::python::DefineProperties(cpu);

  py::class_<CudaPostprocessor> cuda(module, "CudaPostprocessor");
  cuda.def(py::init([](const endcap::ParameterList& parameters, int device_id) {
             const auto params = endcap::ParsePostprocessParams(parameters);
             const endcap::python::ReleasedGil released;
             return std::make_unique<CudaPostprocessor>(params, device_id);
           }),
           py::arg("parameters"), py::arg("device_id"))
      .def("run", endcap::python::RunCuda, py::arg("parts").noconvert(), py::arg("stream"))
      .def("enqueue", endcap::python::EnqueueCuda, py::arg("parts").noconvert(), py::arg("stream"));
  endcap::python::DefineProperties(cuda);
}
