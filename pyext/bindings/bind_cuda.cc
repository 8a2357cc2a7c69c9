#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bind.h"
#include "bindings/cuda_tensor.h"
#include "bindings/gil.h"
#include "endcap/cuda.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

// (available, reason, library_path, driver_version, runtime_version, architectures, devices); a
// device is (id, name, compute_major, compute_minor, multiprocessors, memory_bytes, covered).
using DeviceRow = std::tuple<int, std::string, int, int, int, int64_t, bool>;
using StateRow =
    std::tuple<bool, std::string, std::string, int, int, std::string, std::vector<DeviceRow>>;

StateRow DescribeState() {
  // The first call loads a library.
  const CudaState* state = WithoutGil([] { return &DescribeCuda(); });
  std::vector<DeviceRow> devices;
  for (const CudaDevice& device : state->devices) {
    devices.emplace_back(device.id, device.name, device.compute_major, device.compute_minor,
                         device.multiprocessors, device.memory_bytes, device.covered);
  }
  return {state->available,       state->reason,        state->library_path, state->driver_version,
          state->runtime_version, state->architectures, std::move(devices)};
}

// (available, reason, library_path, version).
std::tuple<bool, std::string, std::string, std::string> DescribeNvjpegState(int device_id) {
  const ReleasedGil released;
  const NvjpegState state = DescribeNvjpeg(device_id);
  return {state.available, state.reason, state.library_path, state.version};
}

}  // namespace
}  // namespace endcap::python

void BindCuda(py::module_& module) {
  using namespace endcap::python;
  module.def("cuda_state", DescribeState);
  module.def("nvjpeg_state", DescribeNvjpegState, py::arg("device_id"));
  module.def("require_cuda", endcap::RequireCuda, py::arg("device_id"),
             py::call_guard<ReleasedGil>());
  module.def(
      "find_cuda_device",
      [](StreamHandle pointer) { return endcap::FindCudaDevice(reinterpret_cast<void*>(pointer)); },
      py::arg("pointer"), py::call_guard<ReleasedGil>());
  module.def(
      "order_cuda_after",
      [](int device_id, StreamHandle stream, StreamHandle before) {
        if (ToStream(stream) == ToStream(before)) return;
        endcap::OrderCudaAfter({device_id, ToStream(stream)}, ToStream(before));
      },
      py::arg("device_id"), py::arg("stream"), py::arg("before"), py::call_guard<ReleasedGil>());

  BindClass<CudaTensor>(module, "CudaTensor")
      .def_static("empty", EmptyCuda, py::arg("type_string"), py::arg("shape"),
                  py::arg("device_id"), py::arg("stream"), py::arg("stream_owner"))
      .def_static("empty_arrays", EmptyCudaArrays, py::arg("specs"), py::arg("device_id"),
                  py::arg("stream"), py::arg("stream_owner"))
      .def_static("upload", UploadToCuda, py::arg("array"), py::arg("device_id"), py::arg("stream"),
                  py::arg("stream_owner"))
      .def_static("borrow", BorrowCuda, py::arg("pointer"), py::arg("type_string"),
                  py::arg("shape"), py::arg("strides"), py::arg("device_id"), py::arg("stream"),
                  py::arg("owner"))
      .def_static("from_dlpack", FromDlpack, py::arg("capsule"), py::arg("device_id"),
                  py::arg("stream"))
      .def_property_readonly("type_string", &CudaTensor::type_string)
      .def_readonly("shape", &CudaTensor::shape)
      .def_property_readonly("strides", &CudaTensor::StridesBytes)
      .def_property_readonly("contiguous",
                             [](const CudaTensor& self) { return self.strides_bytes.empty(); })
      .def_property_readonly("nbytes", &CudaTensor::size_bytes)
      .def_property_readonly(
          "pointer",
          [](const CudaTensor& self) { return reinterpret_cast<StreamHandle>(self.data); })
      .def_property_readonly("device_id",
                             [](const CudaTensor& self) { return self.target.device_id; })
      .def_property_readonly(
          "stream",
          [](const CudaTensor& self) { return reinterpret_cast<StreamHandle>(self.target.stream); })
      .def("reshape", Reshape, py::arg("shape"))
      .def("rows", Rows, py::arg("begin"), py::arg("count"))
      .def("to_numpy", ToNumpy)
      .def("to_dlpack", ToDlpack, py::arg("consumer"), py::arg("consumer_owner"))
      .def("share_with_all_streams", ShareWithAllStreams);
}
