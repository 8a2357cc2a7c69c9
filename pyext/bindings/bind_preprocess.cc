#include <optional>

#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/cuda_tensor.h"
#include "bindings/gil.h"
#include "endcap/cost.h"
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

// out: [N, ...]; geometry [N,8]; status [N]. source_step: between the source indices of
// neighbouring rows.
std::vector<PreprocessOutput> MakeOutputs(BatchTensor& out, py::ssize_t count,
                                          py::array_t<float>& geometry,
                                          py::array_t<int32_t>& status, int source_step) {
  if (out.rows() != count || geometry.size() != count * Geometry::kSize || status.size() != count) {
    throw Error(ErrorCode::kInvalidArgument, "out, geometry and status need a row for each result");
  }
  std::vector<PreprocessOutput> outputs;
  outputs.reserve(static_cast<size_t>(count));
  for (py::ssize_t i = 0; i < count; ++i) {
    outputs.push_back({out.MutableItem(i), geometry.mutable_data() + i * Geometry::kSize,
                       status.mutable_data() + i, static_cast<int>(i) * source_step});
  }
  return outputs;
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

// With rois: one image, and a row of the outputs for each region; else a row for each image.
std::vector<ItemTuple> Run(Preprocessor& preprocessor, const py::list& images,
                           const std::string& pixel_format, const py::object& out,
                           py::array_t<float> geometry, py::array_t<int32_t> status,
                           const std::optional<py::array_t<float>>& rois, StreamHandle stream) {
  const BorrowedImages borrowed(images, ReadPixelFormat(pixel_format));
  BatchTensor memory(out);
  std::vector<PreprocessInput> inputs;
  std::vector<PreprocessOutput> outputs;
  if (rois) {
    const std::span<const Roi> regions = AsRois(images, *rois);
    outputs = MakeOutputs(memory, std::ssize(regions), geometry, status, /*source_step=*/0);
    inputs.push_back({borrowed.OnlyView(), regions, outputs});
  } else {
    const auto& views = borrowed.views();
    outputs = MakeOutputs(memory, std::ssize(views), geometry, status, /*source_step=*/1);
    for (size_t i = 0; i < views.size(); ++i) {
      inputs.push_back({views[i], std::nullopt, std::span(outputs).subspan(i, 1)});
    }
  }
  std::vector<CudaTarget> targets = borrowed.cuda_targets();
  if (memory.cuda() != nullptr) targets.push_back(memory.cuda()->target);
  if (preprocessor.device().type == Device::kCpu) targets.clear();
  const std::vector<PreprocessItem> items = RunInterruptibly([&] {
    const StreamOrder order(std::move(targets), {preprocessor.device().id, ToStream(stream)});
    return preprocessor.Run(inputs, ToStream(stream));
  });
  std::vector<ItemTuple> tuples;
  tuples.reserve(items.size());
  for (const PreprocessItem& item : items) {
    tuples.emplace_back(static_cast<int32_t>(item.status.code), item.status.message, item.decode_ns,
                        GetName(item.decoder));
  }
  return tuples;
}

// float32 [T,4] of one image.
py::array_t<float> Tiles(const Preprocessor& preprocessor, const py::list& image) {
  const BorrowedImages borrowed(image, PixelFormat::kRgb);
  const std::vector<Roi> tiles = ReadTiles(preprocessor.params(), borrowed.OnlyView());
  return py::array_t<float>({std::ssize(tiles), py::ssize_t{4}},
                            reinterpret_cast<const float*>(tiles.data()));
}

py::dict NamedCostTerms(const PreprocessParams& params, const py::list& image, int64_t regions) {
  const BorrowedImages borrowed(image, PixelFormat::kRgb);
  const CostTerms terms = GetCostTerms(params, borrowed.OnlyView(), regions);
  py::dict named;
  for (size_t i = 0; i < kCostTermCount; ++i) {
    named[py::str(std::string(CostTermName(static_cast<CostTerm>(i))))] = terms[i];
  }
  return named;
}

}  // namespace
}  // namespace endcap::python

void BindPreprocess(py::module_& module) {
  using endcap::Preprocessor;
  BindClass<Preprocessor>(module, "Preprocessor")
      .def(py::init([](const endcap::ParameterList& parameters, int threads,
                       std::optional<int> device_id) {
             const auto params = endcap::ParsePreprocessParams(parameters);
             const endcap::python::ReleasedGil released;
             return std::make_unique<Preprocessor>(params, endcap::python::ToDeviceId(device_id),
                                                   threads);
           }),
           py::arg("parameters"), py::arg("threads"), py::arg("device_id") = py::none())
      .def("run", endcap::python::Run, py::arg("images"), py::arg("pixel_format"), py::arg("out"),
           py::arg("geometry").noconvert(), py::arg("status").noconvert(),
           py::arg("rois").noconvert() = py::none(), py::arg("stream") = 0)
      .def_property_readonly("threads", &Preprocessor::threads)
      .def(
          "check_rois",
          [](const Preprocessor& self, int64_t count) { CheckRoiTensors(self.params(), count); },
          py::arg("count"))
      .def("tiles", endcap::python::Tiles, py::arg("image"))
      .def(
          "cost_terms",
          [](const Preprocessor& self, const py::list& image, int64_t regions) {
            return endcap::python::NamedCostTerms(self.params(), image, regions);
          },
          py::arg("image"), py::arg("regions") = 0)
      .def(
          "predict_ms",
          [](const Preprocessor& self, const py::list& image, int64_t regions) {
            const endcap::python::BorrowedImages borrowed(image, endcap::PixelFormat::kRgb);
            return PredictCostMs(self.params(), borrowed.OnlyView(), regions);
          },
          py::arg("image"), py::arg("regions") = 0)
      .def_property_readonly(
          "parameters",
          [](const Preprocessor& self) {
            return endcap::python::ParameterTuples(DescribePreprocessParams(self.params()));
          })
      .def_property_readonly("outputs", [](const Preprocessor& self) {
        return endcap::python::SpecTuples(PreprocessOutputs(self.params()));
      });

  module.def("preset_names", [] {
    const auto names = endcap::PresetNames();
    return std::vector<std::string>(names.begin(), names.end());
  });
}
