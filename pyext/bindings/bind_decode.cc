#include <array>
#include <span>
#include <string_view>

#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/gil.h"
#include "endcap/decode.h"
#include "endcap/preprocess.h"

namespace py = pybind11;

void BindDecode(py::module_& module) {
  // Only exif, truncated, damaged, alpha and the limits of `parameters` matter here.
  module.def(
      "decode",
      [](const py::list& image, const endcap::ParameterList& parameters) {
        const auto params = endcap::ParsePreprocessParams(parameters);
        const endcap::python::BorrowedImages borrowed(image, endcap::PixelFormat::kRgb);
        const bool oriented = params.exif == endcap::ExifPolicy::kApply;
        auto result = std::make_unique<endcap::PixelBuffer>();
        {
          const endcap::python::ReleasedGil released;
          *result = endcap::Decode(borrowed.OnlyView(), params.limits, params.decode_options(3),
                                   oriented);
        }
        const endcap::BandFormat format = result->format;
        const uint8_t* data = result->pixels.data();
        const py::capsule owner(result.release(), [](void* buffer) {
          delete static_cast<endcap::PixelBuffer*>(buffer);
        });
        return py::array_t<uint8_t>({format.height, format.width, format.channels}, data, owner);
      },
      py::arg("image"), py::arg("parameters"));
  // A whole Exif block, whose segments Pillow joins.
  module.def(
      "read_exif_orientation",
      [](std::string_view block) {
        const std::span bytes(reinterpret_cast<const uint8_t*>(block.data()), block.size());
        return endcap::ReadExifOrientation(std::array{bytes});
      },
      py::arg("block"));
}
