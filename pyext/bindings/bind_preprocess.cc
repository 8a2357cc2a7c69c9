#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/cuda_tensor.h"
#include "bindings/gil.h"
#include "endcap/preprocess.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

// (status, message, decode_ns, decoder) of every image; decoder is empty where none ran.
using ItemTuple = std::tuple<int32_t, std::string, int64_t, std::string>;

std::string GetName(JpegDecoder decoder) {
  switch (decoder) {
    case JpegDecoder::kAuto:
      return "";
    case JpegDecoder::kCpu:
      return "cpu";
    case JpegDecoder::kHybrid:
      return "hybrid";
    case JpegDecoder::kNvjpeg:
      return "nvjpeg";
  }
  return "";
}

ItemTuple ToTuple(const ItemStatus& status, int64_t decode_ns, JpegDecoder decoder) {
  return {static_cast<int32_t>(status.code), status.message, decode_ns, GetName(decoder)};
}

std::vector<ItemTuple> ToTuples(const std::vector<PreprocessItem>& items) {
  std::vector<ItemTuple> tuples;
  tuples.reserve(items.size());
  for (const PreprocessItem& item : items) {
    tuples.push_back(ToTuple(item.status, item.decode_ns, item.decoder));
  }
  return tuples;
}

// out: [N, ...] in host or device memory; geometry [N,8]; status [N]. source_step: between the
// source indices of neighbouring rows.
template <typename Array>
std::vector<PreprocessOutput> Outputs(Array& out, py::ssize_t out_rows, py::ssize_t count,
                                      py::array_t<float>& geometry, py::array_t<int32_t>& status,
                                      int source_step = 1) {
  if (out_rows != count || geometry.size() != count * Geometry::kSize || status.size() != count) {
    throw Error(ErrorCode::kInvalidArgument, "out, geometry and status need a row for each result");
  }
  std::vector<PreprocessOutput> outputs;
  outputs.reserve(static_cast<size_t>(count));
  for (py::ssize_t i = 0; i < count; ++i) {
    outputs.push_back({MutableItemView(out, i), geometry.mutable_data() + i * Geometry::kSize,
                       status.mutable_data() + i, static_cast<int>(i) * source_step});
  }
  return outputs;
}

std::vector<ItemTuple> Run(Preprocessor& preprocessor, const py::list& images,
                           const std::string& pixel_format, py::array out,
                           py::array_t<float> geometry, py::array_t<int32_t> status) {
  const BorrowedImages borrowed(images, ReadPixelFormat(pixel_format));
  const auto outputs = Outputs(out, out.ndim() < 1 ? -1 : out.shape(0),
                               std::ssize(borrowed.views()), geometry, status);
  std::vector<PreprocessItem> items;
  {
    const ReleasedGil released;
    items = preprocessor.Run(borrowed.views(), outputs);
  }
  return ToTuples(items);
}

// The rows of rois [K,4], which go with a list of one image.
std::span<const Roi> AsRois(const py::list& image, const py::array_t<float>& rois) {
  static_assert(sizeof(Roi) == 4 * sizeof(float));
  if (image.size() != 1 || rois.ndim() != 2 || rois.shape(1) != 4 ||
      (rois.flags() & py::array::c_style) == 0) {
    throw Error(ErrorCode::kInvalidArgument, "rois must be C-contiguous, [K,4], with one image");
  }
  return {reinterpret_cast<const Roi*>(rois.data()), static_cast<size_t>(rois.shape(0))};
}

ItemTuple RunRois(Preprocessor& preprocessor, const py::list& image,
                  const std::string& pixel_format, const py::array_t<float>& rois, py::array out,
                  py::array_t<float> geometry, py::array_t<int32_t> status) {
  const std::span<const Roi> regions = AsRois(image, rois);
  const BorrowedImages borrowed(image, ReadPixelFormat(pixel_format));
  const auto outputs =
      Outputs(out, out.ndim() < 1 ? -1 : out.shape(0), rois.shape(0), geometry, status, 0);
  const RoiImage job{borrowed.OnlyView(), regions, outputs};
  std::vector<RoiItem> items;
  {
    const ReleasedGil released;
    items = preprocessor.RunRois({&job, 1});
  }
  return ToTuple(items[0].status, items[0].decode_ns, items[0].decoder);
}

std::vector<ItemTuple> RunCuda(CudaPreprocessor& preprocessor, const py::list& images,
                               const std::string& pixel_format, const CudaTensor& out,
                               py::array_t<float> geometry, py::array_t<int32_t> status,
                               StreamHandle stream) {
  const BorrowedImages borrowed(images, ReadPixelFormat(pixel_format));
  const auto outputs = Outputs(out, out.shape.empty() ? -1 : out.shape[0],
                               std::ssize(borrowed.views()), geometry, status);
  std::vector<CudaTarget> targets = borrowed.cuda_targets();
  targets.push_back(out.target);
  std::vector<PreprocessItem> items;
  {
    const ReleasedGil released;
    const StreamOrder order(std::move(targets), {preprocessor.device_id(), ToStream(stream)});
    items = preprocessor.Run(borrowed.views(), outputs, ToStream(stream));
  }
  return ToTuples(items);
}

ItemTuple RunRoisCuda(CudaPreprocessor& preprocessor, const py::list& image,
                      const std::string& pixel_format, const py::array_t<float>& rois,
                      const CudaTensor& out, py::array_t<float> geometry,
                      py::array_t<int32_t> status, StreamHandle stream) {
  const std::span<const Roi> regions = AsRois(image, rois);
  const BorrowedImages borrowed(image, ReadPixelFormat(pixel_format));
  const auto outputs = Outputs(out, out.shape.empty() ? -1 : out.shape[0],
                               static_cast<py::ssize_t>(regions.size()), geometry, status, 0);
  const RoiImage job{borrowed.OnlyView(), regions, outputs};
  std::vector<CudaTarget> targets = borrowed.cuda_targets();
  targets.push_back(out.target);
  std::vector<RoiItem> items;
  {
    const ReleasedGil released;
    const StreamOrder order(std::move(targets), {preprocessor.device_id(), ToStream(stream)});
    items = preprocessor.RunRois({&job, 1}, ToStream(stream));
  }
  return ToTuple(items[0].status, items[0].decode_ns, items[0].decoder);
}

// What both kinds tell of themselves.
template <typename Engine>
void DefineProperties(py::class_<Engine>& engine) {
  engine.def_property_readonly("threads", &Engine::threads)
      .def(
          "check_rois",
          [](const Engine& self, int64_t count) { CheckRoiTensors(self.params(), count); },
          py::arg("count"))
      .def_property_readonly("parameters",
                             [](const Engine& self) {
                               return ParameterTuples(DescribePreprocessParams(self.params()));
                             })
      .def_property_readonly("outputs", [](const Engine& self) {
        return SpecTuples(PreprocessOutputs(self.params()));
      });
}

}  // namespace
}  // namespace endcap::python

void BindPreprocess(py::module_& module) {
  using endcap::CudaPreprocessor;
  using endcap::Preprocessor;
  py::class_<Preprocessor> cpu(module, "Preprocessor");
  cpu.def(py::init([](const endcap::ParameterList& parameters, int threads) {
            return std::make_unique<Preprocessor>(endcap::ParsePreprocessParams(parameters),
                                                  threads);
          }),
          py::arg("parameters"), py::arg("threads"))
      .def("run", endcap::python::Run, py::arg("images"), py::arg("pixel_format"), py::arg("out"),
           py::arg("geometry").noconvert(), py::arg("status").noconvert())
      .def("run_rois", endcap::python::RunRois, py::arg("image"), py::arg("pixel_format"),
           py::arg("rois").noconvert(), py::arg("out"), py::arg("geometry").noconvert(),
           py::arg("status").noconvert());
  endcap::python::DefineProperties(cpu);

  py::class_<CudaPreprocessor> cuda(module, "CudaPreprocessor");
  cuda.def(py::init([](const endcap::ParameterList& parameters, int device_id, int threads) {
             const auto params = endcap::ParsePreprocessParams(parameters);
             const endcap::python::ReleasedGil released;
             return std::make_unique<CudaPreprocessor>(params, device_id, threads);
           }),
           py::arg("parameters"), py::arg("device_id"), py::arg("threads"))
      .def("run", endcap::python::RunCuda, py::arg("images"), py::arg("pixel_format"),
           py::arg("out"), py::arg("geometry").noconvert(), py::arg("status").noconvert(),
           py::arg("stream"))
      .def("run_rois", endcap::python::RunRoisCuda, py::arg("image"), py::arg("pixel_format"),
           py::arg("rois").noconvert(), py::arg("out"), py::arg("geometry").noconvert(),
           py::arg("status").noconvert(), py::arg("stream"));
  endcap::python::DefineProperties(cuda);

  module.def("preset_names", [] {
    const auto names = endcap::PresetNames();
    return std::vector<std::string>(names.begin(), names.end());
  });
}
