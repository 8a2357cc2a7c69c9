#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/gil.h"
#include "endcap/tracking.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

// boxes [N,4] float32, scores [N] float32, class_ids [N] int32; C-contiguous. Returns int64 [N].
// Keeps the GIL: a frame takes less than a millisecond, and a tracker is no object for two threads.
py::array_t<int64_t> UpdateTracks(Tracker& tracker, const py::array_t<float>& boxes,
                                  const py::array_t<float>& scores,
                                  const py::array_t<int32_t>& class_ids) {
  py::array_t<int64_t> ids(scores.size());
  tracker.Update(AsSpan(boxes), AsSpan(scores), AsSpan(class_ids),
                 {ids.mutable_data(), static_cast<size_t>(ids.size())});
  return ids;
}

}  // namespace
}  // namespace endcap::python

void BindTracking(py::module_& module) {
  using endcap::Tracker;
  py::class_<Tracker>(module, "Tracker")
      .def(py::init([](const endcap::ParameterList& parameters) {
             return std::make_unique<Tracker>(endcap::ParseTrackingParams(parameters));
           }),
           py::arg("parameters"))
      .def("update", endcap::python::UpdateTracks, py::arg("boxes").noconvert(),
           py::arg("scores").noconvert(), py::arg("class_ids").noconvert())
      .def("reset", &Tracker::Reset)
      .def("save", [](const Tracker& self) { return py::bytes(self.Save()); })
      .def(
          "restore",
          [](Tracker& self, const py::bytes& state) {
            self.Restore(static_cast<std::string_view>(state));
          },
          py::arg("state"))
      .def_property_readonly("frames", &Tracker::frames)
      .def_property_readonly("track_count", &Tracker::track_count)
      .def_property_readonly("parameters", [](const Tracker& self) {
        return endcap::python::ParameterTuples(DescribeTrackingParams(self.params()));
      });
}
