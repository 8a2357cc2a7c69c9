#include "bindings/bind.h"
#include "bindings/convert.h"
#include "endcap/preprocess.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

// (status, message, decode_ns) of every image.
using ItemTuple = std::tuple<int32_t, std::string, int64_t>;

std::vector<ItemTuple> Run(Preprocessor& preprocessor, const py::list& images,
                           const std::string& pixel_format, py::array out,
                           py::array_t<float> geometry, py::array_t<int32_t> status) {
  const BorrowedImages borrowed(images, ReadPixelFormat(pixel_format));
  const auto count = static_cast<py::ssize_t>(images.size());
  if (out.ndim() < 1 || out.shape(0) != count || geometry.size() != count * Geometry::kSize ||
      status.size() != count) {
    throw Error(ErrorCode::kInvalidArgument, "out, geometry and status need a row for each image");
  }
  std::vector<PreprocessOutput> outputs;
  for (py::ssize_t i = 0; i < count; ++i) {
    outputs.push_back({MutableItemView(out, i), geometry.mutable_data() + i * Geometry::kSize,
                       status.mutable_data() + i, static_cast<int>(i)});
  }
  std::vector<PreprocessItem> items;
  {
    const py::gil_scoped_release release;
    items = preprocessor.Run(borrowed.views(), outputs);
  }
  std::vector<ItemTuple> result;
  for (const PreprocessItem& item : items) {
    result.emplace_back(static_cast<int32_t>(item.status.code), item.status.message,
                        item.decode_ns);
  }
  return result;
}

}  // namespace
}  // namespace endcap::python

void BindPreprocess(py::module_& module) {
  using endcap::Preprocessor;
  py::class_<Preprocessor>(module, "Preprocessor")
      .def(py::init([](const endcap::ParameterList& parameters, int threads) {
             return std::make_unique<Preprocessor>(endcap::ParsePreprocessParams(parameters),
                                                   threads);
           }),
           py::arg("parameters"), py::arg("threads"))
      .def_property_readonly("threads", &Preprocessor::threads)
      .def_property_readonly(
          "parameters",
          [](const Preprocessor& self) {
            return endcap::python::ParameterTuples(endcap::DescribePreprocessParams(self.params()));
          })
      .def_property_readonly(
          "outputs",
          [](const Preprocessor& self) {
            return endcap::python::SpecTuples(endcap::PreprocessOutputs(self.params()));
          })
      .def("run", endcap::python::Run, py::arg("images"), py::arg("pixel_format"), py::arg("out"),
           py::arg("geometry").noconvert(), py::arg("status").noconvert());
  module.def("preset_names", [] {
    const auto names = endcap::PresetNames();
    return std::vector<std::string>(names.begin(), names.end());
  });
}
