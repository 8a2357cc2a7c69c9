#include <array>
#include <mutex>
#include <optional>

#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/gil.h"
#include "endcap/tracking.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

// A tracker that threads of Python may share: their calls come one after the other.
class SharedTracker {
 public:
  explicit SharedTracker(const ParameterList& parameters)
      : tracker_(ParseTrackingParams(parameters)) {}

  // Calls `use` with the tracker, without the GIL.
  template <typename Use>
  auto With(const Use& use) {
    const ReleasedGil released;
    const std::scoped_lock lock(mutex_);
    return use(tracker_);
  }

 private:
  std::mutex mutex_;
  Tracker tracker_;
};

// boxes [N,4] float32, scores [N] float32, class_ids [N] int32; C-contiguous. Returns int64 [N].
py::array_t<int64_t> UpdateTracks(SharedTracker& shared, const py::array_t<float>& boxes,
                                  const py::array_t<float>& scores,
                                  const py::array_t<int32_t>& class_ids,
                                  std::optional<double> timestamp,
                                  const std::optional<std::array<double, 6>>& camera_motion) {
  py::array_t<int64_t> ids(scores.size());
  const std::span<int64_t> ids_span = {ids.mutable_data(), static_cast<size_t>(ids.size())};
  const auto boxes_span = AsSpan(boxes);
  const auto scores_span = AsSpan(scores);
  const auto classes_span = AsSpan(class_ids);
  const FrameInfo info = {timestamp, camera_motion.value_or(FrameInfo{}.camera_motion)};
  shared.With([&](Tracker& tracker) {
    tracker.Update(boxes_span, scores_span, classes_span, ids_span, info);
  });
  return ids;
}

py::bytes SaveTracks(SharedTracker& shared) {
  return py::bytes(shared.With([](Tracker& tracker) { return tracker.Save(); }));
}

void RestoreTracks(SharedTracker& shared, const py::bytes& state) {
  const auto view = static_cast<std::string_view>(state);
  shared.With([&](Tracker& tracker) { tracker.Restore(view); });
}

}  // namespace
}  // namespace endcap::python

void BindTracking(py::module_& module) {
  using endcap::Tracker;
  using endcap::python::SharedTracker;
  BindClass<SharedTracker>(module, "Tracker")
      .def(py::init<const endcap::ParameterList&>(), py::arg("parameters"))
      .def("update", endcap::python::UpdateTracks, py::arg("boxes").noconvert(),
           py::arg("scores").noconvert(), py::arg("class_ids").noconvert(),
           py::arg("timestamp") = py::none(), py::arg("camera_motion") = py::none())
      .def(
          "skip",
          [](SharedTracker& self, int64_t frames) {
            self.With([&](Tracker& tracker) { tracker.Skip(frames); });
          },
          py::arg("frames"))
      .def("reset",
           [](SharedTracker& self) { self.With([](Tracker& tracker) { tracker.Reset(); }); })
      .def("save", endcap::python::SaveTracks)
      .def("restore", endcap::python::RestoreTracks, py::arg("state"))
      .def_property_readonly("frames",
                             [](SharedTracker& self) {
                               return self.With([](Tracker& tracker) { return tracker.frames(); });
                             })
      .def_property_readonly(
          "track_count",
          [](SharedTracker& self) {
            return self.With([](Tracker& tracker) { return tracker.track_count(); });
          })
      .def_property_readonly("parameters", [](SharedTracker& self) {
        return endcap::python::ParameterTuples(
            self.With([](Tracker& tracker) { return DescribeTrackingParams(tracker.params()); }));
      });
}
