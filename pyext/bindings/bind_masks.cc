#include <optional>
#include <string>
#include <vector>

#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/gil.h"
#include "endcap/masks.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

using Floats = py::array_t<float, py::array::c_style>;

template <typename Value>
Value Named(const std::string& name,
            std::initializer_list<std::pair<std::string_view, Value>> names) {
  for (const auto& [known, value] : names) {
    if (name == known) return value;
  }
  throw Error(ErrorCode::kInvalidArgument, "no mask resolution or implementation is named " + name);
}

// prototypes [M,Hp,Wp], coefficients [N,M], boxes [N,4], geometry [8] or none; input_size is
// height, width. Returns the packed masks, uint8 [N,H,bytes of a row], or with `encoded` the size
// (height, width) and one string for each mask.
py::object MakeMasks(const Floats& pixels, const Floats& coefficients, const Floats& boxes,
                     const std::string& resolution, const std::pair<int, int>& input_size,
                     const std::optional<Floats>& geometry_row,
                     const std::string& implementation_name, bool encoded) {
  const bool rows_fit = boxes.ndim() == 2 && boxes.shape(1) == 4 && coefficients.ndim() == 2 &&
                        coefficients.shape(0) == boxes.shape(0);
  if (!rows_fit) {
    throw Error(ErrorCode::kInvalidArgument, "boxes need a shape [N,4], coefficients [N,M]");
  }
  if (pixels.ndim() != 3 || (geometry_row && geometry_row->size() != Geometry::kSize)) {
    throw Error(ErrorCode::kInvalidArgument, "prototypes need 3 axes, geometry 8 numbers");
  }
  const MaskPrototypes prototypes = {pixels.data(), static_cast<int>(pixels.shape(0)),
                                     static_cast<int>(pixels.shape(1)),
                                     static_cast<int>(pixels.shape(2))};
  const MaskDetections detections = {AsSpan(coefficients), AsSpan(boxes), {}};
  std::optional<Geometry> geometry;
  if (geometry_row) geometry = Geometry::FromArray(geometry_row->data());
  const MaskPlan plan = {
      Named<MaskResolution>(resolution, {{"prototype", MaskResolution::kPrototype},
                                         {"input", MaskResolution::kInput},
                                         {"source", MaskResolution::kSource}}),
      input_size.first, input_size.second, geometry ? &*geometry : nullptr};
  const auto implementation = Named<Implementation>(
      implementation_name, {{"scalar", Implementation::kScalar}, {"simd", Implementation::kSimd}});
  const MaskSize size = ComputeMaskSize(prototypes, plan);
  if (encoded) {
    std::vector<std::string> rles;
    WithoutGil([&] { EncodeMasks(prototypes, detections, plan, implementation, rles); });
    return py::make_tuple(py::make_tuple(size.height, size.width), ToBytes(rles));
  }
  py::array_t<uint8_t> packed({boxes.shape(0), static_cast<py::ssize_t>(size.height),
                               static_cast<py::ssize_t>(size.packed_row_bytes())});
  uint8_t* bits = packed.mutable_data();
  std::fill_n(bits, packed.size(), uint8_t{0});
  WithoutGil([&] { WritePackedMasks(prototypes, detections, plan, implementation, bits); });
  return packed;
}

// columns: uint8, any shape, C-contiguous: the pixels of a mask, column after column.
py::bytes EncodeColumns(const py::array_t<uint8_t, py::array::c_style>& columns) {
  return py::bytes(WithoutGil([&] { return EncodeRle(AsSpan(columns)); }));
}

// Fills `columns`.
void DecodeColumns(const std::string& rle, py::array_t<uint8_t, py::array::c_style>& columns) {
  const std::span pixels(columns.mutable_data(), static_cast<size_t>(columns.size()));
  const ReleasedGil released;
  DecodeRle(rle, pixels);
}

}  // namespace
}  // namespace endcap::python

void BindMasks(py::module_& module) {
  module.def("make_masks", endcap::python::MakeMasks, py::arg("prototypes"),
             py::arg("coefficients"), py::arg("boxes"), py::arg("resolution"),
             py::arg("input_size"), py::arg("geometry"), py::arg("implementation"),
             py::arg("encoded"));
  module.def("encode_rle", endcap::python::EncodeColumns, py::arg("columns").noconvert());
  module.def("decode_rle", endcap::python::DecodeColumns, py::arg("rle"),
             py::arg("columns").noconvert());
}
